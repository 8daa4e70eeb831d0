"""``fedflat data list | get | show``: data sets and their partitions."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fedflat.cli.options import ALPHAS, data_dir_option, path, quiet_option, whole
from fedflat.cli.run_options import Options
from fedflat.settings.execution import MACHINE
from fedflat.settings.groups import DESCRIBING

HELP = "list, download and describe data sets"
EXAMPLES = (
    "fedflat data list",
    "fedflat data get cifar10",
    'fedflat data show "digits(lda(0.1), clients=50)"',
)
GROUPS = "settings for --groups, as in a run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The three parts of the command."""
    parts = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    listing = parts.add_parser(
        "list", help="list all data sets and where they are; same as `fedflat list datasets`"
    )
    get = parts.add_parser("get", help="download a data set")
    get.add_argument("name", metavar="NAME", help="data set, such as cifar10")
    show = parts.add_parser(
        "show", help="describe a data set and how its clients differ", epilog=ALPHAS
    )
    show.usage = "%(prog)s DATA [options]"
    show.add_argument(
        "on", metavar="DATA", help='data set and partition, such as "cifar10(lda(0), clients=100)"'
    )
    show.add_argument(
        "--seed", type=whole, default=0, metavar="S", help="seed of the partition (default 0)"
    )
    show.add_argument(
        "--groups",
        metavar="GROUPING",
        help="also print groups of clients: greedy(psi='labels'), or 5",
    )
    show.add_argument(
        "--save",
        type=path,
        metavar="FILE",
        help="also draw clients and classes, and sample images: .png, .svg or .pdf",
    )
    where = [one for one in MACHINE if one.name in ("executor", "workers", "threads", "device")]
    Options(show, GROUPS).settings([*DESCRIBING, *where], GROUPS)
    quiet_option(show)
    for part in (listing, get, show):
        data_dir_option(part)


def run(args: argparse.Namespace) -> int:
    """List, download or describe."""
    if args.job == "list":
        from fedflat.cli.listing import datasets

        print(datasets())
    elif args.job == "get":
        from fedflat.data.files import fetch

        folder = fetch.get(args.name, Path(args.data_dir) if args.data_dir else None, _print_line)
        print(folder or f"{args.name} {fetch.origin(args.name)} and needs no files.")
    else:
        from fedflat.cli.groups import show_data

        show_data(args)
    return 0


def _print_line(text: str) -> None:
    print(text, file=sys.stderr)
