"""``fedflat compare``: several methods with the same clients, batches and seeds."""

from __future__ import annotations

import argparse

from fedflat.cli.run_options import Options, experiment_options

HELP = "run several methods and print a table of their results"
LOADS = ("fedflat.cli.training",)
TAKES_FILE = True
EXAMPLES = (
    'fedflat compare fedavg "fedsam(rho=0.05)" --on "digits(lda(0))" --rounds 300 --seeds 3',
    'fedflat compare fedavg feddyn --on "digits(lda(0.1), clients=50)" --rounds 100 --out runs/two',
    "fedflat compare experiment.toml --seeds 3",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The methods and the settings."""
    parser.description = (
        "Run several methods with the same clients, batches and seeds, and print a table."
    )
    parser.usage = "%(prog)s METHOD [METHOD ...] [options]"
    parser.add_argument(
        "methods",
        metavar="METHOD",
        nargs="+",
        help="methods to compare; or an experiment file: see `fedflat init`",
    )
    experiment_options(Options(parser, several=True))


def run(args: argparse.Namespace) -> int:
    """Train all of them, then print the table of results."""
    from fedflat.cli.training import train_new

    return train_new(args, args.methods)
