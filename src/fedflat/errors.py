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
from math import isfinite


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
    """The end of a sentence that proposes the nearest known word, or nothing.

    >>> nearest("feddin", ["feddyn", "fedavg"])
    " Did you mean 'feddyn'?"
    """
    close = get_close_matches(word, list(words), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def number(
    owner: str, name: str, value: object, *, low: float = float("-inf"), high: float = float("inf"),
    open_low: bool = False, whole: bool = False,
) -> None:
    """Refuse ``value`` unless it is a finite number in ``[low, high]`` (``(low, high]`` with ``open_low``).

    >>> number("sam", "rho", -1, low=0)
    Traceback (most recent call last):
        ...
    fedflat.errors.SettingError: sam: rho must be a number of at least 0, found -1.
    """
    kinds = (int,) if whole else (int, float)
    fits = isinstance(value, kinds) and not isinstance(value, bool)
    if fits and _finite(value) and low <= value <= high and not (open_low and value == low):  # type: ignore[operator]
        return
    kind = "a whole number" if whole else "a number"
    bounds = []
    if low != float("-inf"):
        bounds.append(f"above {low:g}" if open_low else f"of at least {low:g}")
    if high != float("inf"):
        bounds.append(f"at most {high:g}")
    where = " " + " and ".join(bounds) if bounds else ""
    raise SettingError(f"{owner}: {name} must be {kind}{where}, found {value!r}.")


def _finite(value: object) -> bool:
    try:
        return isfinite(value)  # type: ignore[arg-type]
    except OverflowError:  # a whole number too large for a float
        return False


def flag(owner: str, name: str, value: object) -> None:
    """Refuse ``value`` unless it is True or False: the text "False" would count as true.

    >>> flag("fedgloss", "admm", "False")
    Traceback (most recent call last):
        ...
    fedflat.errors.SettingError: fedgloss: admm must be True or False, found 'False'.
    """
    if not isinstance(value, bool):
        raise SettingError(f"{owner}: {name} must be True or False, found {value!r}.")


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
        raise SettingError(f"{owner}: {name} must be {names}, found {value!r}.{nearest(str(value), allowed)}")
