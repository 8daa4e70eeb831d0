"""``fedflat data list | get | show``."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from fedflat.client.instructions import LabelCounts
from fedflat.data.federation import DataSpec
from fedflat.data.files import fetch
from fedflat.data.show import show
from fedflat.experiments.console import reporter_for
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.grouped import groups_described
from fedflat.experiments.groups import drawn, groups_among
from fedflat.experiments.run_folder.groups import Grouped
from fedflat.registry.specs import parse
from fedflat.settings.groups import DESCRIBING, MACHINE
from fedflat.topologies.groupings.fixed import grouping_of
from fedflat.topologies.groupings.grouping import Grouping


def carry_out(args: Namespace) -> int:
    """List, fetch or show."""
    if args.job == "list":
        found = fetch.listing()
        width = 2 + max(len(info.name) for info in found)
        for info in found:
            print(f"{info.name:<{width}}{info.summary}\n{'':{width}}{info.where or info.advice}")
    elif args.job == "get":
        folder = fetch.get(args.name, Path(args.data_dir) if args.data_dir else None, _say)
        print(folder or f"{args.name} {fetch.origin(args.name)} and needs no files.")
    else:
        spec = parse(args.on, "data set")
        print(show(spec, args.seed))
        if args.groups is not None:
            print(drawn(_groups(spec, _grouping(args.groups), args)))
    return 0


def _grouping(text: str) -> Grouping:
    """What a text says: a grouping, or so many random groups."""
    return grouping_of(
        "data show", int(text) if text.strip().isdecimal() else parse(text, "grouping")
    )


def _groups(spec: DataSpec, grouping: Grouping, args: Namespace) -> Grouped:
    """The groups that a run with these settings has; who holds how many of each class is known
    without asking."""
    if all(isinstance(one, LabelCounts) for one in grouping.describers):
        return groups_among(spec, grouping, args.seed)
    settings = {one.name: getattr(args, one.name) for one in DESCRIBING if hasattr(args, one.name)}
    config = ExecutionConfig(
        **{one.name: getattr(args, one.name) for one in MACHINE if hasattr(args, one.name)}
    )
    with reporter_for(quiet=args.quiet) as reporter:
        return groups_described(spec, grouping, args.seed, config, reporter, **settings)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
