"""Hints for texts that are often written by mistake."""

from __future__ import annotations

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
    """
    text = text.strip()
    if re.fullmatch(r"-?\d+,\d+", text):
        return f"Write decimals with a point: {text.replace(',', '.')}. "
    if re.fullmatch(r"[A-Za-z]\w*([ -]\w+)+", text):
        found = nearest(re.sub(r"[ -]", "", text), names)
        return f"{found.strip()} " if found else ""
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
