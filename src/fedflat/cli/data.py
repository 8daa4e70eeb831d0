"""``fedflat data list | get | show``."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from fedflat.data.files import fetch
from fedflat.data.show import show
from fedflat.language.spelling import parse
from fedflat.running.groups import drawn, groups_among
from fedflat.topology.grouping.given import grouping_of
from fedflat.topology.grouping.grouping import Grouping


def carry_out(asked: Namespace) -> int:
    """List, fetch or show."""
    if asked.job == "list":
        found = fetch.listing()
        width = 2 + max(len(info.name) for info in found)
        for info in found:
            print(f"{info.name:<{width}}{info.summary}\n{'':{width}}{info.where or info.advice}")
    elif asked.job == "get":
        folder = fetch.get(asked.name, Path(asked.data_dir) if asked.data_dir else None, _say)
        print(folder or f"{asked.name} {fetch.origin(asked.name)} and needs no files.")
    else:
        spec = parse(asked.on, "data set")
        print(show(spec, asked.seed))
        if asked.groups is not None:
            print(drawn(groups_among(spec, _grouping(asked.groups), asked.seed)))
    return 0


def _grouping(text: str) -> Grouping:
    """What a text says: a grouping, or so many random groups."""
    return grouping_of("data show", int(text) if text.strip().isdecimal() else parse(text, "grouping"))


def _say(text: str) -> None:
    print(text, file=sys.stderr)
