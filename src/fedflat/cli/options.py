"""Options that several commands share, and converters of option values.

The options of a run are in `run_options`, which imports the settings. The range of a number is
checked where the number is used.
"""

from __future__ import annotations

import argparse
import os
import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any

from fedflat.errors import MOST_BYTES, SpellingError, shown
from fedflat.registry.choices import split_values

LONGEST_NAME, LONGEST_PATH = 255, 4095
"""The largest number of bytes of a file name, and of a path."""


def whole(text: str) -> int:
    """A whole number.

    >>> whole("64"), whole("-1"), whole("1e3")
    (64, -1, 1000)
    """
    found = re.fullmatch(r"([+-]?[0-9]{1,40})(?:[eE]\+?([0-9]{1,2}))?", text.strip())
    if found is None:
        hint = (
            ". A run takes one value, `fedflat sweep` and `compare` several" if "," in text else ""
        )
        raise ArgumentTypeError(
            f"must be a whole number, such as 100 or 1e3, found {shown(text)}{hint}"
        )
    return int(found[1] + "0" * int(found[2] or 0))


def real(text: str) -> float:
    """A number.

    >>> real("0.5"), real("1e-3")
    (0.5, 0.001)
    """
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"must be a number, found {shown(text)}") from None


def scalar(text: str) -> float | str:
    """A number, or the text of a schedule."""
    try:
        return float(text)
    except ValueError:
        return text


def several_values(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """A converter of a value, of several values with commas between them, or of a choice in
    braces, which is read later.

    >>> several_values(real)("0.1,1"), several_values(real)("2"), several_values(real)("{1, 2}")
    ([0.1, 1.0], 2.0, '{1, 2}')
    """

    def converted(text: str) -> Any:
        if "{" in text:
            return text
        try:
            values = [read(value) for value in split_values(text)]
        except SpellingError as error:
            raise ArgumentTypeError(str(error)) from None
        return values if len(values) > 1 else values[0]

    return converted


def share(text: str) -> float:
    """A share: 0.9, or 90%.

    >>> share("0.9"), share("90%")
    (0.9, 0.9)
    """
    value = real(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < value <= 1:
        raise ArgumentTypeError(
            f"must be a share between 0 and 1, or 0% and 100%, found {shown(text)}"
        )
    return value


def target(text: str) -> str:
    """A number, optionally with a unit, which the headline score converts.

    >>> target("0.9"), target("90%")
    ('0.9', '90%')
    """
    if not re.match(r"\s*[+-]?\.?[0-9]", text):
        raise ArgumentTypeError(f"must be a number, such as 0.9 or 90%, found {shown(text)}")
    return text


def memory(text: str) -> int:
    """Bytes, from a text such as 1.5GB or 500MB.

    >>> memory("1.5GB"), memory("500 mb"), memory("64")
    (1500000000, 500000000, 64)
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)b?", text.strip().lower())
    size = float(found[1]) * 1000.0 ** " kmgt".index(found[2] or " ") if found else float("inf")
    if not size <= MOST_BYTES:
        raise ArgumentTypeError(f"must be a size such as 1GB or 500MB, found {shown(text)}")
    return round(size)


def examples(text: str) -> int | None:
    if text == "all":
        return None
    if not re.fullmatch(r"[0-9]{1,12}", text) or int(text) < 1:
        raise ArgumentTypeError(f"must be a number of at least 1, or all, found {shown(text)}")
    return int(text)


def path(text: str) -> str:
    """The path of a file or a folder; ``~`` is a home folder."""
    name = os.fsencode(text)
    if (
        not text
        or b"\0" in name
        or len(name) > LONGEST_PATH
        or max(map(len, name.split(b"/"))) > LONGEST_NAME
    ):
        raise ArgumentTypeError(
            f"must be a path with names of at most {LONGEST_NAME} bytes, found {shown(text)}"
        )
    home = os.path.expanduser(text)
    if home.startswith("~"):
        user = home.partition("/")[0][1:] or "this user"
        raise ArgumentTypeError(
            f"must be a path, and {user} has no home folder, found {shown(text)}"
        )
    return home


def picture_size(text: str) -> tuple[int, int]:
    """Height and width of an image; zeros stand for its own size.

    >>> picture_size("512x1024"), picture_size("own")
    ((512, 1024), (0, 0))
    """
    found = re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", text.strip())
    if found is None and text.strip() != "own":
        raise ArgumentTypeError(
            f"must be a height and a width, such as 512x1024, or own, found {shown(text)}"
        )
    return (0, 0) if found is None else (int(found[1]), int(found[2]))


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
