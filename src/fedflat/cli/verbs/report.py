"""``fedflat report``: run folders as one HTML page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fedflat.cli.options import data_dir_option, label_option, path, target
from fedflat.errors import printable

HELP = "write one HTML page about runs, which needs no network"
LOADS = ("fedflat.report.page",)
EXAMPLES = (
    "fedflat report runs/two --out report.html",
    "fedflat report runs/first runs/second",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The runs, the page and the figures."""
    parser.description = (
        "Write one HTML page about runs and studies. It opens in a browser without a network."
    )
    add = parser.add_argument
    add("folders", type=path, metavar="RUN", nargs="+", help="folders of runs or studies")
    add(
        "--target",
        type=target,
        metavar="A",
        help="score to reach: 0.9 or 90%% (default: the study's or the first's)",
    )
    add(
        "--out",
        type=path,
        metavar="FILE",
        help="the page (default: report.html in the folder, if there is one only)",
    )
    add(
        "--figures", type=path, metavar="DIR", help="also draw figures for a paper into this folder"
    )
    kinds = ["png", "pdf", "svg"]
    add(
        "--formats",
        nargs="+",
        default=kinds,
        metavar="FORMAT",
        help="formats of figures: png pdf svg (default: all)",
    )
    add(
        "--columns",
        type=int,
        choices=(1, 2),
        help="width of all figures in columns of a paper: 1 is 3.25 inches, 2 is 6.75 (default: "
        "what each figure needs)",
    )
    label_option(parser)
    data_dir_option(parser)


def run(args: argparse.Namespace) -> int:
    """Write the page and print its name."""
    from fedflat.experiments.results.scenario import read_labels
    from fedflat.report.page import write_report

    folders = [Path(folder) for folder in args.folders]
    out = (
        Path(args.out)
        if args.out
        else (folders[0] if len(folders) == 1 else Path()) / "report.html"
    )
    figures = None if args.figures is None else Path(args.figures)
    for sentence in write_report(
        folders,
        out,
        figures=figures,
        formats=args.formats,
        columns=args.columns,
        target=args.target,
        labels=read_labels(args.labels),
    ):
        print(printable(sentence), file=sys.stderr)
    print(out)
    return 0
