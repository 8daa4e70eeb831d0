"""``fedflat sweep``: several values of settings, and the choice between them."""

from __future__ import annotations

import argparse

from fedflat.cli.options import path, whole
from fedflat.cli.run_options import Options, experiment_options

HELP = "run several values of settings and choose by the validation set"
LOADS = ("fedflat.cli.sweep",)
EXAMPLES = (
    'fedflat sweep "fedsam(rho={0.01, 0.05, 0.1})" --lr 0.01,0.1 --on "digits(lda(0))" --seeds 3',
    'fedflat sweep fedavg "fedsam(rho={log(0.01, 1)})" --lr "{log(0.01, 1)}" --search random --trials 8',
    'fedflat sweep "fedsam(rho={0.05, 0.1, 0.15, 0.2})" --preset fedgloss/cifar10-cnn-alpha0 --rounds 500',
    "fedflat sweep --resume runs/mine",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The methods, their settings, and the search."""
    parser.description = (
        "Run every combination of the values of settings, and choose between them by the mean score "
        "on the validation set. Several values are written in braces, fedsam(rho={0.05, 0.1}), or "
        "with commas, --lr 0.01,0.1. Runs are done in parallel, one on each core."
    )
    parser.usage = "%(prog)s METHOD [METHOD ...] [options]"
    parser.add_argument("methods", metavar="METHOD", nargs="*", help="methods, with their choices")
    options = Options(parser, "search", several=True)
    add = options.groups["search"].add_argument
    add(
        "--search",
        choices=("grid", "random", "optuna"),
        default="grid",
        help="all combinations, random ones, or ones that Optuna proposes and prunes (default grid)",
    )
    add("--trials", type=whole, metavar="N", help="settings of each method, unless all are run")
    add("--search-seed", type=whole, default=0, metavar="S", help="seed of the search")
    add(
        "--preset",
        metavar="NAME",
        help="the data, model and settings of a paper's run (`fedflat list presets`)",
    )
    add("--jobs", type=whole, metavar="N", help="runs at a time (default: one for each core)")
    add("--resume", type=path, metavar="DIR", help="continue a sweep")
    add("--every", action="store_true", help="also print the table of every setting")
    experiment_options(options)


def run(args: argparse.Namespace) -> int:
    """Run the sweep, then print its tables."""
    from fedflat.cli.sweep import train_sweep

    return train_sweep(args)
