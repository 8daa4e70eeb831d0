"""``fedflat resume``: continue a run or a study that was stopped."""

from __future__ import annotations

import argparse

from fedflat.cli.options import path, whole
from fedflat.cli.run_options import Options, training_options
from fedflat.settings.setting import EXECUTION

HELP = "continue a run or a study that was stopped"
LOADS = ("fedflat.cli.training",)
EXAMPLES = ("fedflat resume runs/first",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The folder, and the settings that may change."""
    parser.description = (
        "Continue a run or a study from its last checkpoint. Finished runs are not repeated."
    )
    parser.usage = "%(prog)s DIR [options]"
    parser.add_argument("folder", type=path, metavar="DIR", help="folder of a run or a study")
    options = Options(parser)
    options.add(
        EXECUTION,
        "--until",
        type=whole,
        metavar="N",
        help="stop after round N; the run can be resumed again",
    )
    options.add(
        EXECUTION,
        "--executor",
        metavar="EXECUTOR",
        help="continue with another executor, such as workers or \"ray(address='auto')\" (default: "
        "that of the run)",
    )
    for name in ("device", "devices"):
        options.add(
            EXECUTION,
            f"--{name}",
            metavar=name.upper(),
            help="continue on another device (default: that of the run)"
            if name == "device"
            else "continue with workers on other devices, such as 0,1 (default: those of the run)",
        )
    training_options(options)


def run(args: argparse.Namespace) -> int:
    """Train the remaining rounds, then print the table of results."""
    from fedflat.cli.training import train_on

    return train_on(args)
