"""Several values in one text: ``fedsam(rho={0.01, 0.05, 0.1})``, ``--lr 0.01,0.1``.

Braces hold the values of a choice, separated by commas. A choice may be a range instead, for
searches that draw: ``{log(0.001, 0.1)}``, ``{uniform(0, 1)}`` or ``{whole(1, 8)}``. Texts without
braces have no choice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fedflat.errors import SpellingError, shown

OPEN, CLOSE = "([{", ")]}"
RANGES = ("log", "uniform", "whole")
_RANGE = re.compile(rf"({'|'.join(RANGES)})\s*\(([^,()]+),([^,()]+)\)")


@dataclass(frozen=True)
class Range:
    """All numbers between two: equally likely (``uniform``), equally likely in their logarithm
    (``log``), or whole ones (``whole``)."""

    kind: str
    low: float
    high: float

    def at(self, share: float) -> float | int:
        """The number below which a share of the probability lies.

        >>> Range("log", 0.01, 1).at(0.5), Range("whole", 1, 4).at(0.99)
        (0.1, 4)
        """
        if self.kind == "whole":
            return min(int(self.low + share * (self.high - self.low + 1)), int(self.high))
        if self.kind == "log":
            drawn = math.exp(
                math.log(self.low) + share * (math.log(self.high) - math.log(self.low))
            )
        else:
            drawn = self.low + share * (self.high - self.low)
        return float(f"{drawn:.4g}")

    def __str__(self) -> str:
        return f"{self.kind}({self.low:g}, {self.high:g})"


@dataclass(frozen=True)
class Choice:
    """A setting that takes several values.

    name
        What it is called in tables, such as ``rho`` or ``lr``.
    values
        The texts of its values, or the range they are drawn from.
    """

    name: str
    values: tuple[str, ...] | Range

    @property
    def count(self) -> float:
        """The number of its values; infinite for a range."""
        return math.inf if isinstance(self.values, Range) else len(self.values)

    def __str__(self) -> str:
        inner = str(self.values) if isinstance(self.values, Range) else ", ".join(self.values)
        return f"{self.name}={{{inner}}}"


@dataclass(frozen=True)
class Template:
    """A text with choices in it: ``parts`` has one text more than there are choices."""

    parts: tuple[str, ...]
    choices: tuple[Choice, ...]

    def filled(self, values: Mapping[str, str]) -> str:
        """The text with a value for each choice, by name.

        >>> read_template("fedsam(rho={0.1, 0.2})").filled({"rho": "0.2"})
        'fedsam(rho=0.2)'
        """
        text = self.parts[0]
        for choice, after in zip(self.choices, self.parts[1:], strict=True):
            text += values[choice.name] + after
        return text

    def __str__(self) -> str:
        named = {one.name: str(one).partition("=")[2] for one in self.choices}
        return self.filled(named)


def read_template(text: str, name: str = "method", taken: Collection[str] = ()) -> Template:
    """The choices of a text; ``name`` is what a choice is called that is the whole text. Names that
    are ``taken`` get the name of their function too.

    >>> [str(one) for one in read_template("fedgloss(rho_s={0.1, 0.2}, rho_l={0.1})").choices]
    ['rho_s={0.1, 0.2}', 'rho_l={0.1}']
    >>> [one.name for one in read_template("digits(lda({0, 1}))", "on").choices]
    ['lda']
    >>> [one.name for one in read_template("asam(rho={1, 2}) + sam(rho={1, 2})").choices]
    ['asam.rho', 'sam.rho']
    """
    parts, place = [""], 0
    choices, functions = list[tuple[str, str, tuple[str, ...] | Range]](), list[str]()
    while place < len(text):
        sign = text[place]
        if sign in "'\"":
            end = text.find(sign, place + 1)
            end = len(text) if end < 0 else end + 1
            parts[-1] += text[place:end]
            place = end
            continue
        if sign == "{":
            end = _end(text, place)
            found = re.search(r"(\w+)\s*=\s*$", text[:place])
            function = functions[-1] if functions else ""
            inner = text[place + 1 : end]
            choices.append(
                (found[1] if found else function or name, function, _values(inner, text))
            )
            parts.append("")
            place = end + 1
            continue
        if sign == "}":
            raise SpellingError(f"cannot read {shown(text)}: there is a '}}' without a '{{'.")
        if sign in "([":
            before = re.search(r"(\w+)\s*$", text[:place])
            functions.append(before[1] if before and sign == "(" else "")
        elif sign in ")]" and functions:
            functions.pop()
        parts[-1] += sign
        place += 1
    return Template(tuple(parts), tuple(_named(choices, text, taken)))


def _named(
    found: Sequence[tuple[str, str, tuple[str, ...] | Range]], text: str, taken: Collection[str]
) -> list[Choice]:
    """The choices under different names: by the argument, with its function if two have one
    name."""
    names = [name for name, _, _ in found]
    made = [
        Choice(
            f"{function}.{name}" if function and (names.count(name) > 1 or name in taken) else name,
            values,
        )
        for name, function, values in found
    ]
    if len({one.name for one in made} - set(taken)) < len(made):
        raise SpellingError(
            f"cannot read {shown(text)}: two of its choices have the same name. Choose one of them."
        )
    return made


def _end(text: str, begin: int) -> int:
    depth = 0
    for place in range(begin, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if not depth:
            return place
    raise SpellingError(f"cannot read {shown(text)}: a '{{' is not closed.")


def _values(inner: str, text: str) -> tuple[str, ...] | Range:
    found = _RANGE.fullmatch(inner.strip())
    if found is None:
        return split_values(inner, text)
    try:
        low, high = float(found[2]), float(found[3])
    except ValueError:
        low, high = math.nan, math.nan
    least = 0 if found[1] == "log" else -math.inf
    whole = found[1] != "whole" or (low.is_integer() and high.is_integer())
    if not (least < low < high < math.inf and whole):
        raise SpellingError(
            f"cannot read {shown(inner)} in {shown(text)}: a range has a low and a high number, "
            "such as {log(0.001, 0.1)}, {uniform(0, 1)} or {whole(1, 8)}."
        )
    return Range(found[1], low, high)


def split_values(inner: str, text: str = "") -> tuple[str, ...]:
    """The values that commas outside parentheses separate.

    >>> split_values("0.1, decay(0.1, 0.99)")
    ('0.1', 'decay(0.1, 0.99)')
    """
    values, depth, quote = [""], 0, ""
    for sign in inner:
        if quote or sign in "'\"":
            quote = "" if sign == quote else quote or sign
        elif sign in OPEN:
            depth += 1
        elif sign in CLOSE:
            depth -= 1
        if sign == "," and not depth and not quote:
            values.append("")
        else:
            values[-1] += sign
    read = tuple(value.strip() for value in values)
    if not all(read):
        raise SpellingError(
            f"cannot read {shown(text or inner)}: a value is missing. Write the values with commas "
            "between them, such as 0.01,0.1."
        )
    if len(set(read)) < len(read):
        twice = next(value for value in read if read.count(value) > 1)
        raise SpellingError(
            f"cannot read {shown(text or inner)}: the value {shown(twice)} is there twice. Leave "
            "one out."
        )
    return read
