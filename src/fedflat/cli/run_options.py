"""The options of a run, which several commands share, in groups by purpose."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable
from typing import Any

from fedflat.cli.options import (
    OUTPUT,
    data_dir_option,
    memory,
    path,
    quiet_option,
    real,
    scalar,
    several_values,
    table_options,
    target,
    whole,
)
from fedflat.settings.execution import MACHINE
from fedflat.settings.groups import SETTINGS
from fedflat.settings.setting import (
    DATA,
    EVALUATION,
    EXECUTION,
    PURPOSES,
    RECORDING,
    SERVER,
    Setting,
)

COMMON = "common options"
MOST_USED = (
    "on",
    "rounds",
    "clients_per_round",
    "local_epochs",
    "batch_size",
    "lr",
    "model",
    "seed",
    "out",
    "workers",
)
"""The common options, in this order."""
LATER = ("record", "logger")
"""Settings of execution that can be changed when a run is resumed."""
_READ = {"int": whole, "float": real, "Scalar": scalar, "bytes": memory}


class Options:
    """The argument groups of a parser, by title; groups without arguments are not printed."""

    def __init__(
        self, parser: argparse.ArgumentParser, *titles: str, several: bool = False
    ) -> None:
        self.parser, self.several = parser, several
        self.groups = {
            title: parser.add_argument_group(title)
            for title in (COMMON, *titles, *PURPOSES, OUTPUT)
        }
        groups = parser._action_groups
        # After the others: they matter more.
        groups.append(groups.pop(groups.index(parser._optionals)))
        parser._optionals.title = "other options"
        self._either: dict[str, argparse._MutuallyExclusiveGroup] = {}

    def add(self, title: str, *names: str, **more: Any) -> argparse.Action:
        """Add an argument to a group."""
        return self.groups[title].add_argument(*names, **more)

    def setting(
        self, one: Setting, default: Any = argparse.SUPPRESS, title: str | None = None
    ) -> None:
        """Add the option of a setting; without a default, it is absent from the parsed arguments if
        it is not given."""
        title = title or (COMMON if one.name in MOST_USED else one.about.purpose)
        help = one.described.replace("%", "%%")
        if one.kind == "bool":
            action = self.add(title, one.option, action="store_true", default=default, help=help)
        else:
            read: Callable[[str], Any] = _READ.get(one.about.unit or one.kind, str)
            if self.several and one in SETTINGS and read is not str:
                read = several_values(read)
            action = self.add(
                title, one.option, type=read, default=default, metavar=one.about.metavar, help=help
            )
        if one.about.either:  # its alternatives may be in another group of the help
            if one.about.either not in self._either:
                self._either[one.about.either] = self.parser.add_mutually_exclusive_group()
            self._either[one.about.either]._group_actions.append(action)

    def settings(self, settings: Iterable[Setting], title: str | None = None) -> None:
        """Add the options of those settings that can be given in one word."""
        for one in settings:
            if one.typeable:
                self.setting(one, title=title)


def experiment_options(options: Options, without: Collection[str] = ()) -> None:
    """The options of a new run or study. Settings that are not given are absent: a preset may have
    them. Settings in ``without`` have no option."""
    known = {one.name: one for one in (*SETTINGS, *MACHINE)}
    for name in MOST_USED:
        if name in without:
            continue
        if name == "seed":
            seeds = options.groups[COMMON].add_mutually_exclusive_group()
            seeds.add_argument(
                "--seed",
                type=whole,
                metavar="S",
                help="random seed (default 0, or a preset's first)",
            )
            seeds.add_argument(
                "--seeds", type=whole, metavar="N", help="run seeds 0 to N-1, or a preset's first N"
            )
        elif name == "out":
            options.add(
                COMMON,
                "--out",
                type=path,
                metavar="DIR",
                help="run folder (default: a new one in runs/)",
            )
        elif known[name] in MACHINE:
            options.setting(known[name], known[name].default)
        else:
            options.setting(known[name])
    options.settings(one for one in SETTINGS if one.name not in (*MOST_USED, *without))
    for one in MACHINE:
        if one.typeable and one.name not in (*MOST_USED, *LATER, *without):
            options.setting(one, one.default)
    options.add(
        SERVER,
        "--replay",
        type=path,
        metavar="FILE",
        help='JSON file with "cohorts" and "orders": the clients of each round and their batches',
    )
    training_options(options)


def training_options(options: Options) -> None:
    """The options of every command that trains, from the beginning or from a checkpoint."""
    options.add(
        EXECUTION,
        "--checkpoint-every",
        type=real,
        default=20.0,
        metavar="SECONDS",
        help="least time between two checkpoints (default 20)",
    )
    for one in MACHINE:
        if one.name in LATER:
            options.setting(one, None)
    options.add(
        RECORDING,
        "--profile",
        action="store_true",
        help="print where the time went, and write profile.speedscope.json",
    )
    options.add(
        EVALUATION,
        "--target",
        type=target,
        metavar="A",
        help="headline score to reach: 0.9 or 90%%; stored with the study (default: the first method's "
        "final score)",
    )
    table_options(options.groups[OUTPUT])
    quiet_option(options.groups[OUTPUT])
    data_dir_option(options.groups[DATA])
