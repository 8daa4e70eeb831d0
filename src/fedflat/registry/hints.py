"""Hints for texts that are often written by mistake."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from fedflat.errors import nearest

OPTIONS = {
    "data set": "on (--on)",
    "model": "model (--model)",
    "task": "task (--task)",
    "topology": "topology (--topology)",
    "schedule": "lr (--lr)",
    "clock": "clock (--clock)",
    "attack": "attack (--attack)",
}
"""Kinds of names that are settings, and the settings."""
QUOTES = "Write texts and paths in quotes, and for a shell the whole too: \"csv('wine.csv')\". "
"""About a word in an argument of a call that is not a name."""


def hint_for_text(text: str, names: Iterable[str]) -> str:
    """A sentence about a text that is no name or call; empty if there is none to give.

    >>> hint_for_text("cifar-10", ["cifar10", "cifar100"])
    "Did you mean 'cifar10'? "
    >>> hint_for_text("0,1", [])
    'Write decimals with a point: 0.1. '
    >>> hint_for_text("0.01,0.1", [])
    'A run takes one value, `fedflat sweep` and `compare` several. '
    >>> hint_for_text("fedavg,", [])
    "Leave out the ',': values are separated by spaces. "
    """
    text = text.strip()
    if re.fullmatch(r"-?\d+,\d+", text):
        return f"Write decimals with a point: {text.replace(',', '.')}. "
    if re.fullmatch(r"[-+.\de]+(,\s*[-+.\de]+)+", text):
        return "A run takes one value, `fedflat sweep` and `compare` several. "
    if re.fullmatch(r"\w+(\(.*\))?,", text):
        return "Leave out the ',': values are separated by spaces. "
    if re.fullmatch(r"[A-Za-z]\w*([ -]\w+)+", text):
        found = nearest(re.sub(r"[ -]", "", text), names)
        return f"{found.strip()} " if found else ""
    return ""


def hint_for_path(text: str, kind: str | None) -> str:
    """A sentence about a path in place of a data set; empty if it is none.

    >>> print(hint_for_path("data/wine.csv", "data set").strip())
    For a table write "csv('data/wine.csv', target='COLUMN')", in a shell with both quotes.
    >>> print(hint_for_path("./photos", "data set").strip())
    For a folder of images write "image_folder('./photos')", in a shell with both quotes.
    >>> hint_for_path("digits(iid())", "data set"), hint_for_path("./nets.py", "model")
    ('', '')
    """
    text = text.strip()
    if kind != "data set" or re.search(r"[()'\"\0]", text):
        return ""
    if text.lower().endswith(".csv"):
        return (
            f"For a table write \"csv({text!r}, target='COLUMN')\", in a shell with both quotes. "
        )
    if "/" in text or os.path.isdir(text):
        return (
            f'For a folder of images write "image_folder({text!r})", in a shell with both quotes. '
        )
    return ""


def hint_for_kind(name: str, found: str, wanted: str) -> str:
    """A sentence about a name of another kind than wanted; empty if there is none to give.

    >>> hint_for_kind("digits", "data set", "method")
    'A data set is given as on (--on). '
    """
    if (found, wanted) == ("partition", "data set"):
        return (
            f'Write it inside a data set, such as "digits({name}(...))". `fedflat list partitions` '
            "explains all partitions. "
        )
    if (found, wanted) == ("method", "data set"):
        return "A method is the first argument. "
    if wanted == "method" and found in OPTIONS:
        return f"A {found} is given as {OPTIONS[found]}. "
    return ""
