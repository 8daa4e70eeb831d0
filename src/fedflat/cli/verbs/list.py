"""``fedflat list``: everything that can be named in a text, with its arguments."""

from __future__ import annotations

import argparse

from fedflat.cli.options import data_dir_option
from fedflat.registry.specs import KINDS

HELP = "list methods, models, data sets, presets and everything else that has a name"
LOADS = ("fedflat.cli.listing",)
EXAMPLES = (
    "fedflat list",
    "fedflat list methods",
    "fedflat list methods fedsam",
    "fedflat list presets fedgloss",
)
PRESETS = "presets"
NAMES = [*filter(None, KINDS.values()), PRESETS]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The kind, and one item of it."""
    parser.description = (
        "List all items of a kind, or print one in detail. Without KIND: the kinds."
    )
    parser.usage = "%(prog)s [KIND [NAME]] [options]"
    parser.add_argument(
        "kind", metavar="KIND", nargs="?", choices=NAMES, help=f"one of {', '.join(NAMES)}"
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help='an item in detail; a combination of methods: "feddyn + sam"; presets also by paper or part of a name',
    )
    data_dir_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the list or the item."""
    from fedflat.cli.listing import describe, kinds, listing

    if args.kind is None:
        print(kinds())
    else:
        print(listing(args.kind) if args.name is None else describe(args.kind, args.name))
    return 0
