"""``fedflat reproduce``: cells of a paper's table, run again."""

from __future__ import annotations

import argparse

from fedflat.cli.options import OUTPUT, data_dir_option, path, quiet_option, real, share, whole

HELP = "run cells of a paper's table and compare with the paper's numbers"
LOADS = ("fedflat.cli.reproduce",)
EXAMPLES = ("fedflat reproduce toy",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The table, the cells, and how to run them."""
    parser.description = (
        "Run cells of a paper's table again, and print them beside the paper's numbers."
    )
    parser.usage = "%(prog)s TABLE [options]"
    parser.add_argument(
        "what",
        metavar="TABLE",
        nargs="?",
        help="fedgloss/table3, a preset or a pattern, mine.toml, or toy",
    )
    add = parser.add_argument_group("cells").add_argument
    add("--list", action="store_true", help="list the selected cells and run nothing")
    add(
        "--cells",
        nargs="+",
        metavar="PATTERN",
        help="cells, by name or pattern: 'cifar10-*-{fedavg,fedsam}'",
    )
    add(
        "--add-average",
        action="append",
        metavar="AVERAGE",
        help='also evaluate an average of the models of the same runs: "wima(window=100)"; can be repeated',
    )
    add(
        "--flatness",
        nargs="+",
        metavar="MEASURE",
        help="also measure the curvature of the final models: lambda_1, ratio, trace, "
        "local_lambda_1, global_lambda_1",
    )
    add(
        "--set",
        choices=("test", "train"),
        default="test",
        help="examples of --flatness (default test)",
    )
    add(
        "--examples",
        type=whole,
        metavar="N",
        help="measure curvature on N random examples (default: all)",
    )
    add(
        "--target",
        action="append",
        metavar="SCORE",
        help="also report the rounds to a score: 50, or the score of a cell: fedavg, "
        "0.9*centralised; can be repeated",
    )
    add(
        "--seeds",
        metavar="N",
        help="number of the authors' seeds, or a list: 0,42 (default: the first)",
    )
    rounds = parser.add_argument_group("rounds")
    far = rounds.add_mutually_exclusive_group()
    far.add_argument(
        "--rounds",
        type=whole,
        metavar="N",
        help="stop after N of the paper's rounds; can be resumed",
    )
    far.add_argument(
        "--share",
        type=share,
        metavar="S",
        help="stop after a share of the paper's rounds: 0.3 or 30%%",
    )
    rounds.add_argument(
        "--stretch",
        action="store_true",
        help="scale the schedules to these rounds instead of cutting",
    )
    _execution(parser)


def _execution(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("execution")
    add = group.add_argument
    add(
        "--jobs",
        type=whole,
        metavar="N",
        help="runs at a time (default: as many as the cores allow)",
    )
    add(
        "--workers",
        type=whole,
        default=1,
        metavar="N",
        help="clients trained at a time in each run (default 1)",
    )
    add(
        "--nice",
        type=whole,
        default=19,
        metavar="N",
        help="niceness of the processes, 0 to 19 (default 19)",
    )
    add("--resume", type=path, metavar="DIR", help="continue all runs in a folder")
    add(
        "--checkpoint-every",
        type=real,
        default=60.0,
        metavar="SECONDS",
        help="least time between two checkpoints (default 60)",
    )
    data_dir_option(group)
    output = parser.add_argument_group(OUTPUT)
    output.add_argument(
        "--out", type=path, metavar="DIR", help="folder (default: runs/reproduce-TABLE)"
    )
    output.add_argument(
        "--table", action="store_true", help="only rewrite the tables and the figure of a folder"
    )
    quiet_option(output)


def run(args: argparse.Namespace) -> int:
    """List, run, or write the tables."""
    from fedflat.cli.reproduce import reproduce

    return reproduce(args)
