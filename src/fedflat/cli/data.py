"""``fedflat data list | get | show``."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from fedflat.data.files import fetch
from fedflat.data.show import show
from fedflat.language.spelling import parse


def carry_out(asked: Namespace) -> int:
    """List, fetch or show."""
    if asked.job == "list":
        for info in fetch.listing():
            print(f"{info.name:<15}{info.summary}\n{'':15}{info.where or info.advice}")
    elif asked.job == "get":
        folder = fetch.get(asked.name, Path(asked.data_dir) if asked.data_dir else None, _say)
        print(folder or f"{asked.name} {fetch.origin(asked.name)} and needs no files.")
    else:
        print(show(parse(asked.on, "data set"), asked.seed))
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr)
