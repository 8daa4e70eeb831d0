"""``fedflat table``: the table of results of run folders."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from shutil import get_terminal_size

from fedflat.cli.options import data_dir_option, path, table_options, target
from fedflat.errors import printable, printable_lines

HELP = "print the table of runs as text, Markdown, LaTeX or CSV"
LOADS = ("fedflat.report.page",)
EXAMPLES = (
    "fedflat table runs/two",
    'fedflat table runs/two --latex --label "fedsam(rho=0.05)=FedSAM"',
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The runs and the form of the table."""
    parser.description = (
        "Print a table of runs and studies: one for each data set, partition, task and score. In "
        "Markdown and LaTeX the best mean of a column is bold if it is ahead of every other mean by "
        "Welch's t-test over seeds (two-sided, 5 %). With one seed nothing is bold."
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
        "--columns",
        metavar="NAME,...",
        help="columns, such as accuracy,loss,rounds_to_target (default: all; --latex: those that "
        "papers print)",
    )
    table_options(parser)
    data_dir_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the tables; what could not be read goes to standard error."""
    from fedflat.experiments.results.scenario import read_labels
    from fedflat.report.leaderboard import tables_of

    columns = [name.strip() for name in args.columns.split(",")] if args.columns else None
    room = get_terminal_size().columns if sys.stdout.isatty() else None
    text, problems = tables_of(
        [Path(folder) for folder in args.folders],
        args.style,
        target=args.target,
        labels=read_labels(args.labels),
        columns=columns,
        room=room,
    )
    for sentence in problems:
        print(printable(sentence), file=sys.stderr)
    print(printable_lines(text))
    return 0
