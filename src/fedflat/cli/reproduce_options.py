"""The options of ``fedflat reproduce``."""

from __future__ import annotations

import argparse

from fedflat.cli.values import path, real, share, whole


def reproduce_options(parser: argparse.ArgumentParser) -> None:
    """Which cells to run, how much of them, and how."""
    add = parser.add_argument
    add(
        "what",
        metavar="TABLE",
        nargs="?",
        help="fedgloss/table3, a preset or a pattern, mine.toml, toy",
    )
    add("--list", action="store_true", help="list its cells and run nothing")
    add(
        "--cells",
        nargs="+",
        metavar="PATTERN",
        help="which cells: names or patterns, 'cifar10-*-{fedavg,fedsam}'",
    )
    add(
        "--add-shadow",
        action="append",
        metavar="SHADOW",
        help='more models of the same runs: "wima(window=100)"',
    )
    add(
        "--seeds",
        metavar="N",
        help="how many of the authors' seeds, or which: 0,42 (default: the first)",
    )
    far = parser.add_mutually_exclusive_group()
    far.add_argument(
        "--rounds",
        type=whole,
        metavar="N",
        help="stop after N of the paper's rounds, to go on later",
    )
    far.add_argument(
        "--share",
        type=share,
        metavar="S",
        help="the same as a share of the paper's rounds: 0.3 or 30%%",
    )
    add(
        "--stretch",
        action="store_true",
        help="shorten the schedules to these rounds instead of cutting them off",
    )
    _going(parser)


def _going(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--jobs",
        type=whole,
        metavar="N",
        help="runs at a time (default: as many as there are cores for)",
    )
    add(
        "--workers",
        type=whole,
        default=1,
        metavar="N",
        help="cores of a run: so many clients at a time (default 1)",
    )
    add(
        "--nice",
        type=whole,
        default=19,
        metavar="N",
        help="how far to stand back for others, 0 to 19 (default 19)",
    )
    add("--out", type=path, metavar="DIR", help="(default: runs/reproduce-TABLE)")
    add("--resume", type=path, metavar="DIR", help="go on with all that is in a folder")
    add(
        "--table", action="store_true", help="only write the tables and the figure of a folder anew"
    )
    add(
        "--checkpoint-every",
        type=real,
        default=60.0,
        metavar="SECONDS",
        help="at most so often (default 60)",
    )
    add("--quiet", action="store_true", help="no progress")
