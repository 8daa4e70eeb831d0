"""Options that several commands share: the style of tables, labels, progress, the data folder.

The options of a run are in `run_options`, which imports the settings.
"""

from __future__ import annotations

import argparse

from fedflat.cli.values import path

OUTPUT = "output"
"""The title of the group of options about what is printed."""
ALPHAS = """what alpha is in a partition:
  lda(alpha)                             each client draws from Dirichlet(alpha * class frequencies): alpha is divided
                                         among the classes; the same as concentration='total'
  lda(alpha, concentration='component')  each client draws from Dirichlet([alpha] * classes): every class has alpha
  dirichlet(alpha)                       each class is divided by Dirichlet([alpha] * clients), as in NIID-Bench, PFLlib
                                         and FedLab; balance=False as in Flower Datasets"""


def table_options(group: argparse._ActionsContainer) -> None:
    """The options of every command that prints a table of results."""
    styles = group.add_mutually_exclusive_group()
    for style, named in (("csv", "CSV"), ("markdown", "Markdown"), ("latex", "LaTeX (booktabs)")):
        styles.add_argument(
            f"--{style}",
            dest="style",
            action="store_const",
            const=style,
            default="text",
            help=f"print the table as {named}",
        )
    label_option(group)


def label_option(group: argparse._ActionsContainer) -> None:
    """The option that names methods."""
    group.add_argument(
        "--label",
        dest="labels",
        action="append",
        default=[],
        metavar="METHOD=NAME",
        help="name of a method in tables, pages and figures, such as 'fedgloss(...)=FedGloSS'; "
        "may be repeated",
    )


def quiet_option(group: argparse._ActionsContainer) -> None:
    """The option that turns progress off."""
    group.add_argument("--quiet", action="store_true", help="print no progress")


def data_dir_option(group: argparse._ActionsContainer) -> None:
    """The option that names the folder of data sets."""
    group.add_argument("--data-dir", type=path, metavar="DIR", help="folder of the data sets")
