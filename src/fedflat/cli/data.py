"""``fedflat data list | get | show``."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from fedflat.client.asks import LabelCounts
from fedflat.data.federation import DataSpec
from fedflat.data.files import fetch
from fedflat.data.show import show
from fedflat.folder.groups import Grouped
from fedflat.language.spelling import parse
from fedflat.running.groups import drawn, groups_among
from fedflat.settings.groups import DESCRIBING, MACHINE
from fedflat.studies.grouped import groups_described
from fedflat.studies.how import How
from fedflat.studies.progress import heard
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
            print(drawn(_groups(spec, _grouping(asked.groups), asked)))
    return 0


def _grouping(text: str) -> Grouping:
    """What a text says: a grouping, or so many random groups."""
    return grouping_of("data show", int(text) if text.strip().isdecimal() else parse(text, "grouping"))


def _groups(spec: DataSpec, grouping: Grouping, asked: Namespace) -> Grouped:
    """The groups that a run with these settings has; who holds how many of each class is known without asking."""
    if all(isinstance(one, LabelCounts) for one in grouping.describers):
        return groups_among(spec, grouping, asked.seed)
    settings = {one.name: getattr(asked, one.name) for one in DESCRIBING if hasattr(asked, one.name)}
    how = How(**{one.name: getattr(asked, one.name) for one in MACHINE if hasattr(asked, one.name)})
    with heard(quiet=asked.quiet) as voice:
        return groups_described(spec, grouping, asked.seed, how, voice, **settings)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
