"""``fedflat data show``: a data set, its clients and groups of clients."""

from __future__ import annotations

import sys
from argparse import Namespace
from shutil import get_terminal_size

from fedflat.client.instructions import LabelCounts
from fedflat.data.federation import DataSpec
from fedflat.data.shown_data import show
from fedflat.experiments.console import reporter_for
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.grouped import groups_described
from fedflat.experiments.groups import groups_among, groups_text
from fedflat.experiments.run_folder.groups import Grouped
from fedflat.registry.specs import parse
from fedflat.settings.execution import MACHINE
from fedflat.settings.groups import DESCRIBING
from fedflat.topologies.groupings.fixed import grouping_of
from fedflat.topologies.groupings.grouping import Grouping


def show_data(args: Namespace) -> None:
    """Print what a data set holds and how its clients differ, and their groups if they are
    wanted."""
    spec = parse(args.on, "data set")
    room = get_terminal_size().columns if sys.stdout.isatty() else None
    print(show(spec, args.seed, matrix=True, room=room))
    if args.save is not None:
        from fedflat.data.shown_data import show_data as picture

        print(f"picture: {picture(spec, args.seed).save(args.save)}")
    if args.groups is not None:
        print(groups_text(_groups(spec, _grouping(args.groups), args)))


def _grouping(text: str) -> Grouping:
    """The grouping that a text names; a number stands for that many random groups."""
    return grouping_of(
        "data show", int(text) if text.strip().isdecimal() else parse(text, "grouping")
    )


def _groups(spec: DataSpec, grouping: Grouping, args: Namespace) -> Grouped:
    """The groups that a run with these settings has. Label counts are known without running
    clients."""
    if all(isinstance(one, LabelCounts) for one in grouping.describers):
        return groups_among(spec, grouping, args.seed)
    settings = {one.name: getattr(args, one.name) for one in DESCRIBING if hasattr(args, one.name)}
    config = ExecutionConfig(
        **{one.name: getattr(args, one.name) for one in MACHINE if hasattr(args, one.name)}
    )
    with reporter_for(quiet=args.quiet) as reporter:
        return groups_described(spec, grouping, args.seed, config, reporter, **settings)
