"""The exceptions of fedflat and checks of arguments.

Every message says what was wrong, what was found, and what to do.

    FedflatError
    ├── SpellingError     a text that does not name a method, a data set, a model ...
    ├── SettingError      a number out of range, or pieces that cannot be combined
    ├── DataError         a file that is missing, damaged or of the wrong format
    ├── RunError          a run folder that is in use, of another version, damaged or full
    └── NotFinite         a client's reply, or the server's model, is NaN or infinite
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from math import log10
from numbers import Integral, Real

PrintLine = Callable[[str], None]
"""Shows a message to the user; it may have several lines."""


class FedflatError(ValueError):
    """Base class of all errors that fedflat raises on purpose."""


class SpellingError(FedflatError):
    """A text that cannot be parsed, or an unknown name in it."""


class SettingError(FedflatError):
    """A value out of its range, or two settings that contradict each other."""


class DataError(FedflatError):
    """A data file that is missing, truncated, of the wrong format or with wrong labels."""


class RunError(FedflatError):
    """A run folder that cannot be created, read or continued."""


class NotFinite(FedflatError):
    """A NaN or an infinity where a number should be."""


def nearest(word: str, words: Iterable[str], *, likeness: float = 0.6) -> str:
    """ " Did you mean ...?" with the known word nearest to ``word``, or an empty text if none has
    this ``likeness``, from 0 to 1.

    >>> nearest("FedDin", ["feddyn", "fedavg"])
    " Did you mean 'feddyn'?"
    """
    known = {known.lower(): known for known in words}
    close = get_close_matches(word.lower()[:LONGEST], known, n=1, cutoff=likeness)
    return f" Did you mean {known[close[0]]!r}?" if close else ""


def shown(value: object) -> str:
    """The ``repr`` of a value for an error message, shortened if it is long.

    >>> shown("short"), len(shown("a" * 10**6)), shown(16**5000)
    ("'short'", 80, 'a number of more than 6020 digits')
    """
    if isinstance(value, int) and value.bit_length() > 8 * LONGEST:
        return f"a number of more than {int(value.bit_length() * log10(2))} digits"
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def printable(text: str) -> str:
    r"""One line of text from a file with control characters escaped, safe for a terminal.

    Otherwise escape sequences, line breaks and marks of text direction could change what is
    displayed.

    >>> print(printable("fedavg\x1b[2J\n"))
    fedavg\x1b[2J\n
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def printable_lines(text: str) -> str:
    """`printable` for each line of a text."""
    return "\n".join(map(printable, text.split("\n")))


LONGEST = 80
"""Characters of a wrong value that a message repeats."""
LARGEST = 1e30
"""The largest number that is accepted. float32 ends at 3.4e38, and some numbers are squared."""
MOST = 10**15
"""The largest whole number that is accepted, for things that are counted one by one."""
LARGEST_SEED = 2**63 - 1
LONGEST_WAIT = 10**7
"""In seconds."""
MOST_BYTES = 2**60
MAX_PIXELS = 2**26
"""Most pixels of an image that is decoded, unless the user sets another limit."""
MOST_AT_ONCE = 10**7
"""Most things in memory at once: units of a layer, examples of one request."""
MOST_POINTS = 1000
"""Most points per axis of a grid, such as a plane or a border of pixels."""
MOST_WEIGHTS = 10**9
"""Most weights of a layer, or numbers in the examples of a client: four gigabytes."""
MOST_PROCESSES = 1024
"""Most worker processes, or threads of one of them."""
MOST_RUNS = 10_000
"""Most runs of one study."""


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
    """Refuse ``value`` unless it is a number from ``low`` to ``high``.

    ``open_low`` excludes ``low``; ``whole`` allows whole numbers only.

    Without a limit, `LARGEST` applies, or `MOST` for whole numbers. NumPy scalars are accepted.

    >>> number("sam", "rho", -1, low=0)
    Traceback (most recent call last):
        ...
    fedflat.errors.SettingError: sam: rho must be a number of at least 0, found -1.
    """
    end = MOST if whole else LARGEST
    least, most = max(low, -end), high if high < float("inf") else end
    fits = is_number(value, whole)
    in_range = fits and least <= value <= most  # type: ignore[operator]
    if in_range and not (open_low and value == low):
        return
    bounds = []
    if low != float("-inf") or (fits and value < least):  # type: ignore[operator]
        bounds.append(f"above {least:g}" if open_low else f"of at least {least:g}")
    if high < MOST_POINTS or (fits and value > most):  # type: ignore[operator]
        bounds.append(f"at most {most:g}")
    kind = "a whole number" if whole else "a number"
    where = " " + " and ".join(bounds) if bounds else ""
    raise SettingError(f"{owner}: {name} must be {kind}{where}, found {shown(value)}.")


def is_number(value: object, whole: bool = False) -> bool:
    """True if ``value`` is a Python or NumPy number, and not a bool."""
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

    >>> choice("lda", "kind", "al", ["all", "one"])
    Traceback (most recent call last):
        ...
    fedflat.errors.SettingError: lda: kind must be 'all' or 'one', found 'al'. Did you mean 'all'?
    """
    allowed = list(allowed)
    if value not in allowed:
        names = " or ".join(map(repr, allowed))
        raise SettingError(
            f"{owner}: {name} must be {names}, found {shown(value)}.{nearest(str(value), allowed)}"
        )
