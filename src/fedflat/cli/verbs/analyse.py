"""``fedflat analyse``: curvature, loss landscapes and robustness of trained models."""

from __future__ import annotations

import argparse

from fedflat.cli.options import data_dir_option, quiet_option
from fedflat.cli.values import examples, memory, path, real, whole

HELP = "compute curvature, loss landscapes and robustness of runs"
ALIASES = ("analyze",)
LOADS = ("fedflat.cli.analysis",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The runs, the analyses and their options."""
    parser.description = (
        "Compute analyses of runs and write them as JSON into RUN/analysis/, where `fedflat report` finds them. "
        "Results that exist are not computed again. After Ctrl-C the same command continues."
    )
    parser.usage = "%(prog)s RUN [RUN ...] [options]"
    parser.add_argument(
        "folders", type=path, metavar="RUN", nargs="+", help="folders of runs or studies"
    )
    _kinds(parser.add_argument_group("analyses"))
    where = parser.add_argument_group("model and data")
    where.add_argument(
        "--model", metavar="NAME", help="which model: server, swa, ... (default: the reported one)"
    )
    where.add_argument(
        "--set", default="test", metavar="SET", help="data: test (default), train, or client:K"
    )
    where.add_argument(
        "--examples",
        type=examples,
        default=1000,
        metavar="N",
        help="number of examples, drawn by the seed (default 1000); all: the whole set",
    )
    where.add_argument(
        "--seed",
        type=whole,
        default=0,
        metavar="S",
        help="seed of subsets, directions and probes (default 0)",
    )
    data_dir_option(where)
    _precision(parser.add_argument_group("precision"))
    quiet_option(parser.add_argument_group("output"))


def _kinds(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--curvature",
        action="store_true",
        help="largest Hessian eigenvalues; see also the options of precision",
    )
    add(
        "--surface",
        action="store_true",
        help="loss around the model, along random directions that all runs share",
    )
    add(
        "--plane",
        nargs="*",
        metavar="RUN[:MODEL]",
        help="loss on the plane through three models (default: the given runs); clients: through three clients' models",
    )
    add(
        "--interpolate",
        nargs=2,
        metavar=("A", "B"),
        help="loss on the line between two models, each RUN[:MODEL]",
    )
    add(
        "--local-global",
        action="store_true",
        help="sharpness of client models on their own data and on everyone's data",
    )
    add(
        "--recovered",
        action="store_true",
        help="distance of the images that the attack gan(...) has recovered",
    )
    add(
        "--corruptions",
        nargs="*",
        metavar="KIND",
        help="score under corrupted images: all 19 kinds of corruption, or the named ones",
    )
    add(
        "--pictures",
        type=whole,
        nargs="?",
        const=3,
        metavar="N",
        help="image, label and predicted mask of N examples of each test set (default 3), or one of each domain",
    )
    add("--confusion", action="store_true", help="confusion matrix of each test set")
    add("--styles", action="store_true", help="styles of the clients' images, and their clusters")


def _precision(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("-k", type=whole, default=5, metavar="K", help="number of eigenvalues (default 5)")
    add(
        "--power",
        action="store_true",
        help="also by power iteration with deflation, as in the papers",
    )
    add(
        "--probes",
        type=whole,
        default=0,
        metavar="N",
        help="Hessian products for the trace (default 0: no trace)",
    )
    add(
        "--trace",
        default="hutchinson",
        metavar="KIND",
        help="trace estimator: hutchinson (default) or hutch++",
    )
    add(
        "--density",
        type=whole,
        default=0,
        metavar="N",
        help="spectral density from N random vectors (default 0)",
    )
    add("--layers", action="store_true", help="largest eigenvalue of each layer")
    add("--rho", type=real, metavar="R", help="largest loss increase within a ball of radius R")
    add(
        "--memory",
        type=memory,
        metavar="SIZE",
        help="memory of curvature, beside program and data; less is slower, too little is refused (default 4GB)",
    )
    add(
        "--clients",
        type=whole,
        metavar="N",
        help="number of clients of --local-global (default: the number of clients per round)",
    )
    add(
        "--points",
        type=whole,
        default=25,
        metavar="N",
        help="points per side of a surface (default 25)",
    )
    add(
        "--span",
        type=real,
        default=1.0,
        metavar="S",
        help="distance from the model to the edge of a surface",
    )


def run(args: argparse.Namespace) -> int:
    """Compute the analyses and print a line for each."""
    from fedflat.cli.analysis import analyse

    return analyse(args)
