"""What can go wrong, as a tree. Every message says what was wrong, what was found, and what to do.

FedflatError
├── SpellingError     a text that does not name a method, a data set, a model ...
├── SettingError      a number out of range, or pieces that cannot stand together
├── DataError         a file that is missing, damaged or not what it claims to be
├── RunError          a run folder that is taken, of another version, damaged or full
└── NotFinite         a client's reply, or the server's model, is NaN or infinite
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from math import log10
from numbers import Integral, Real


class FedflatError(ValueError):
    """The root: catch this to catch all that fedflat raises on purpose."""


class SpellingError(FedflatError):
    """A text that cannot be read as what it should name."""


class SettingError(FedflatError):
    """A value out of its range, or two settings that contradict each other."""


class DataError(FedflatError):
    """A data file that is missing, truncated, of the wrong format or with wrong labels."""


class RunError(FedflatError):
    """A run folder that cannot be made, read or continued."""


class NotFinite(FedflatError):
    """A NaN or an infinity where a number should be."""


def nearest(word: str, words: Iterable[str]) -> str:
    """The end of a sentence that proposes the nearest known word, whatever its case, or nothing.

    >>> nearest("FedDin", ["feddyn", "fedavg"])
    " Did you mean 'feddyn'?"
    """
    known = {known.lower(): known for known in words}
    close = get_close_matches(word.lower()[:LONGEST], known, n=1, cutoff=0.6)
    return f" Did you mean {known[close[0]]!r}?" if close else ""


def shown(value: object) -> str:
    """A value as a sentence can hold it: its text, cut where it is long.

    >>> shown("short"), len(shown("a" * 10**6)), shown(16**5000)
    ("'short'", 80, 'a number of more than 6020 digits')
    """
    if isinstance(value, int) and value.bit_length() > 8 * LONGEST:
        return f"a number of more than {int(value.bit_length() * log10(2))} digits"
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def printable(text: str) -> str:
    r"""One line of text that comes from a file, for a terminal: what is not printable is shown as
    an escape.

    Otherwise escape sequences, line breaks and marks that reverse the direction of text could show
    what is not there.

    >>> print(printable("fedavg\x1b[2J\n"))
    fedavg\x1b[2J\n
    """
    if text.isprintable():
        return text
    return "".join(
        request if request.isprintable() else request.encode("unicode_escape").decode()
        for request in text
    )


def printable_lines(text: str) -> str:
    """The same of several lines."""
    return "\n".join(map(printable, text.split("\n")))


LONGEST = 80
"""Letters of a wrong value that a message repeats."""
LARGEST = 1e30
"""The largest number anybody may give: float32 ends at 3.4e38, and some are squared or
multiplied."""
MOST = 10**15
"""The largest whole number, for what is counted one after the other."""
LARGEST_SEED = 2**63 - 1
LONGEST_WAIT = 10**7
"""Seconds."""
MOST_BYTES = 2**60
MAX_PIXELS = 2**26
"""The most pixels of an image that is decoded, unless the user gives another limit."""
MOST_AT_ONCE = 10**7
"""Of what is in memory all at once: units of a layer, examples of a visit."""
MOST_POINTS = 1000
"""On a side of what has two: a plane, a border of pixels."""
MOST_WEIGHTS = 10**9
"""Of a layer, or of the examples of a client: four gigabytes."""
MOST_PROCESSES = 1024
"""Worker processes, or threads in one of them."""
MOST_RUNS = 10_000
"""Runs of one study."""


def number(
    owner: str,
    name: str,
    value: object,
    *,
    low: float = float("-inf"),
    high: float = float("inf"),
    open_low: bool = False,
    whole: bool = False,
) -> None:
    """Refuse ``value`` unless it is a number in ``[low, high]`` (``(low, high]`` with
    ``open_low``).

    Where no limit is said it is `LARGEST`, or `MOST` for a whole number. A high limit is told to
    those who break it. NumPy's numbers are numbers.

    >>> number("sam", "rho", -1, low=0)
    Traceback (most recent call last):
        ...
    fedflat.errors.SettingError: sam: rho must be a number of at least 0, found -1.
    """
    end = MOST if whole else LARGEST
    least, most = max(low, -end), high if high < float("inf") else end
    fits = is_number(value, whole)
    if fits and least <= value <= most and not (open_low and value == low):  # type: ignore[operator]
        return
    bounds = []
    if low != float("-inf") or (fits and value < least):  # type: ignore[operator]
        bounds.append(f"above {least:g}" if open_low else f"of at least {least:g}")
    if high < MOST_POINTS or (fits and value > most):  # type: ignore[operator]
        bounds.append(f"at most {most:g}")
    kind, where = (
        "a whole number" if whole else "a number",
        " " + " and ".join(bounds) if bounds else "",
    )
    raise SettingError(f"{owner}: {name} must be {kind}{where}, found {shown(value)}.")


def is_number(value: object, whole: bool = False) -> bool:
    """Whether ``value`` is a number, Python's or NumPy's, and no truth value."""
    kinds = (int, Integral) if whole else (int, float, Integral, Real)
    return isinstance(value, kinds) and not isinstance(value, bool)


def flag(owner: str, name: str, value: object) -> None:
    """Refuse ``value`` unless it is True or False: the text "False" would count as true.

    >>> flag("fedgloss", "admm", "False")
    Traceback (most recent call last):
        ...
    fedflat.errors.SettingError: fedgloss: admm must be True or False, found 'False'.
    """
    if not isinstance(value, bool):
        raise SettingError(f"{owner}: {name} must be True or False, found {shown(value)}.")


def choice(owner: str, name: str, value: object, allowed: Iterable[str]) -> None:
    """Refuse ``value`` unless it is one of ``allowed``.

    >>> choice("lda", "kind", "totl", ["total", "component"])
    Traceback (most recent call last):
        ...
    fedflat.errors.SettingError: lda: kind must be 'total' or 'component', found 'totl'. Did you mean 'total'?
    """
    allowed = list(allowed)
    if value not in allowed:
        names = " or ".join(map(repr, allowed))
        raise SettingError(
            f"{owner}: {name} must be {names}, found {shown(value)}.{nearest(str(value), allowed)}"
        )
