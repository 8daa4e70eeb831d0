"""The one score a run is judged by: its name in the rows, how people see it, and whether more of it
is better."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedflat.errors import SettingError, flag, number, shown

LONGEST = 40
"""Letters of a name, a label or a unit."""
TAKEN = frozenset(
    "round down up samples training seconds train_loss personal clients model models tests tuned chain".split()
)
"""What rows of evaluations call something else."""


@dataclass(frozen=True)
class Headline:
    """A score by its ``name`` in evaluation rows; people see ``value * factor`` with the ``unit``.

    >>> ACCURACY.said(0.8123, 0.01), Headline("rmse", higher_is_better=False).said(0.51236)
    ('81.23 ± 1.00', '0.5124')
    """

    name: str
    label: str = ""
    """What people call it; the name if nothing is said."""
    unit: str = ""
    factor: float = 1.0
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.name)
        named = isinstance(self.name, str) and re.fullmatch(
            rf"[A-Za-z][\w@-]{{0,{LONGEST - 1}}}", self.name, re.ASCII
        )
        if not named or self.name in TAKEN:
            raise SettingError(
                "headline: name must be a word such as accuracy, rmse or recall@5, and none that evaluations have "
                f"another meaning for, found {shown(self.name)}."
            )
        for name, text in (("label", self.label), ("unit", self.unit)):
            if (
                not isinstance(text, str)
                or len(text) > LONGEST
                or not text.isprintable()
                or text != text.strip()
            ):
                raise SettingError(
                    f"headline: {name} must be a text of at most {LONGEST} letters, found {shown(text)}."
                )
        number("headline", "factor", self.factor, low=0, open_low=True)
        if not math.isfinite(1 / self.factor):
            raise SettingError(f"headline: factor is too small to divide by, found {self.factor}.")
        flag("headline", "higher_is_better", self.higher_is_better)

    @property
    def share(self) -> bool:
        """Whether it is a share of one, which people see in per cent."""
        return self.unit == "%"

    @property
    def title(self) -> str:
        """The label as it begins a sentence.

        >>> ACCURACY.title, Headline("miou", "mIoU").title
        ('Accuracy', 'mIoU')
        """
        return self.label[:1].upper() + self.label[1:] if self.label.islower() else self.label

    @property
    def column(self) -> str:
        """The head of its column: the label and the unit."""
        return self.head(self.label)

    def head(self, words: str) -> str:
        """The head of a column of such values.

        >>> ACCURACY.head("best"), Headline("rmse").head("best")
        ('best %', 'best')
        """
        return f"{words} {self.unit}".rstrip()

    def said(self, value: float, spread: float = math.nan) -> str:
        """A value for people, without its unit, with its spread if there is one; ``-`` if there is
        no value.

        >>> ACCURACY.said(math.nan), Headline("rmse").said(1234.5, 6.7), Headline("rmse").said(2e-9)
        ('-', '1234 ± 7', '2.000e-09')
        """
        return self.seen(value * self.factor, spread * self.factor)

    def seen(self, value: float, spread: float = math.nan) -> str:
        """The same of a value that is in the unit already: two places in per cent, else four digits
        in all."""
        if math.isnan(value):
            return "-"
        size = abs(value)
        form = ".2f" if self.share else ".4f"
        if not self.share and size and math.isfinite(size):
            places = max(3 - math.floor(math.log10(size)), 0)
            form = f".{places}f" if 1e-4 <= size < 1e7 else ".3e"
        return f"{value:{form}}" + (f" ± {spread:{form}}" if not math.isnan(spread) else "")

    def with_unit(self, value: float, spread: float = math.nan) -> str:
        """The same with the unit, as a sentence has it.

        >>> ACCURACY.with_unit(0.8123)
        '81.23 %'
        """
        return self.head(self.said(value, spread))

    def goal(self, target: float) -> str:
        """A value to reach, for people.

        >>> ACCURACY.goal(0.9), Headline("rmse").goal(0.5)
        ('90.0 %', '0.5')
        """
        return self.head(
            f"{target * self.factor:.1f}" if self.share else f"{target * self.factor:.4g}"
        )

    def better(self, a: float, b: float) -> bool:
        """Whether ``a`` is better than ``b``; any number is better than none."""
        if math.isnan(a) or math.isnan(b):
            return math.isnan(b) and not math.isnan(a)
        return a > b if self.higher_is_better else a < b

    def gain(self, a: float, b: float) -> float:
        """By how much ``a`` is better than ``b``: below 0 if it is worse."""
        return a - b if self.higher_is_better else b - a

    def best(self, values: Iterable[float]) -> float:
        """The best of some values; NaN if there is none."""
        found = [value for value in values if not math.isnan(value)]
        return (max if self.higher_is_better else min)(found, default=math.nan)

    def reaches(self, value: float, target: float) -> bool:
        """Whether a value is as good as the target."""
        return value >= target if self.higher_is_better else value <= target

    def target(self, text: str) -> float:
        """The value that a person typed: ``90%`` or ``0.9`` of a share, what people see of anything
        else.

        >>> ACCURACY.target("90%"), ACCURACY.target("0.9"), Headline("rmse").target("12.5")
        (0.9, 0.9, 12.5)
        """
        typed = text.strip()
        bare = typed.removesuffix(self.unit) if self.unit else typed
        try:
            value = float(bare)
        except ValueError:
            value = math.nan
        value = value if self.share and bare == typed else value / self.factor
        if self.share and not 0 < value <= 1:
            which = f"an {self.label}" if self.label[0] in "aeiou" else f"a {self.label}"
            raise SettingError(
                f"{which} lies between 0 and 1, or 0% and 100%, found {shown(text)}."
            )
        if not math.isfinite(value):
            raise SettingError(f"the {self.label} to reach must be a number, found {shown(text)}.")
        return value

    def as_json(self) -> dict[str, Any]:
        """What a run folder keeps."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any] | None) -> Headline:
        """The headline that a run folder names; folders of before have none and mean the
        accuracy."""
        return ACCURACY if kept is None else cls(**kept)


def common_target(target: float | str | None, headlines: Iterable[Headline]) -> float | None:
    """A target as the runs' headline has it, typed or not; runs that are judged by different scores
    have none."""
    found = list(dict.fromkeys(headlines))
    if target is None or not found:
        return None
    if len(found) > 1:
        names = " and ".join(headline.label for headline in found)
        raise SettingError(
            f"no target can be that of all: the runs are judged by different scores ({names}). Leave it out, or look "
            "at runs of one kind only."
        )
    return found[0].target(target) if isinstance(target, str) else target


ACCURACY = Headline("accuracy", unit="%", factor=100.0)
"""The share of examples that are given the right class."""
