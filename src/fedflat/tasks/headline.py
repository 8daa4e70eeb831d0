"""The headline score of a run: its name in results, its format, and its direction."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedflat.errors import SettingError, flag, number, shown

LONGEST = 40
"""Most characters of a name, a label or a unit."""
RESERVED = frozenset(
    "round down up samples training seconds train_loss personal clients model models tests tuned "
    "chain".split()
)
"""Names that evaluation rows use for something else."""

CLASS_IOU = "iou_"
"""Evaluation rows hold the IoU of class 3 under ``iou_3``."""


@dataclass(frozen=True)
class Headline:
    """A score called ``name`` in evaluation rows, displayed as ``value * factor`` with ``unit``.

    >>> ACCURACY.format(0.8123, 0.01), Headline("rmse", higher_is_better=False).format(0.51236)
    ('81.23 ± 1.00', '0.5124')
    """

    name: str
    label: str = ""
    """Display name; by default the name."""
    unit: str = ""
    factor: float = 1.0
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.name)
        named = isinstance(self.name, str) and re.fullmatch(
            rf"[A-Za-z][\w@-]{{0,{LONGEST - 1}}}", self.name, re.ASCII
        )
        if not named or self.name in RESERVED:
            raise SettingError(
                "headline: name must be a word such as accuracy, rmse or recall@5, and not one "
                f"that evaluations use for something else, found {shown(self.name)}."
            )
        for name, text in (("label", self.label), ("unit", self.unit)):
            if (
                not isinstance(text, str)
                or len(text) > LONGEST
                or not text.isprintable()
                or text != text.strip()
            ):
                raise SettingError(
                    f"headline: {name} must be a text of at most {LONGEST} characters, found "
                    f"{shown(text)}."
                )
        number("headline", "factor", self.factor, low=0, open_low=True)
        if not math.isfinite(1 / self.factor):
            raise SettingError(f"headline: factor is too small to divide by, found {self.factor}.")
        flag("headline", "higher_is_better", self.higher_is_better)

    @property
    def share(self) -> bool:
        """True if it is a fraction of one, displayed in per cent."""
        return self.unit == "%"

    @property
    def title(self) -> str:
        """The label, capitalized unless it has capitals already.

        >>> ACCURACY.title, Headline("miou", "mIoU").title
        ('Accuracy', 'mIoU')
        """
        return self.label[:1].upper() + self.label[1:] if self.label.islower() else self.label

    @property
    def column(self) -> str:
        """Header of its column: the label and the unit."""
        return self.head(self.label)

    def head(self, words: str) -> str:
        """Header of a column of such values: ``words`` and the unit.

        >>> ACCURACY.head("best"), Headline("rmse").head("best")
        ('best %', 'best')
        """
        return f"{words} {self.unit}".rstrip()

    def format(self, value: float, spread: float = math.nan) -> str:
        """A value for display without its unit, with its spread if given; ``-`` for NaN.

        >>> rmse = Headline("rmse")
        >>> ACCURACY.format(math.nan), rmse.format(1234.5, 6.7), rmse.format(2e-9)
        ('-', '1234 ± 7', '2.000e-09')
        """
        return self.format_displayed(value * self.factor, spread * self.factor)

    def format_displayed(self, value: float, spread: float = math.nan) -> str:
        """Like `format`, for a value in display units.

        Two decimals in per cent, otherwise four digits.
        """
        if math.isnan(value):
            return "-"
        size = abs(value)
        form = ".2f" if self.share else ".4f"
        if not self.share and size and math.isfinite(size):
            places = max(3 - math.floor(math.log10(size)), 0)
            form = f".{places}f" if 1e-4 <= size < 1e7 else ".3e"
        return f"{value:{form}}" + (f" ± {spread:{form}}" if not math.isnan(spread) else "")

    def with_unit(self, value: float, spread: float = math.nan) -> str:
        """A value for display with its unit.

        >>> ACCURACY.with_unit(0.8123)
        '81.23 %'
        """
        return self.head(self.format(value, spread))

    def goal(self, target: float) -> str:
        """A target value for display.

        >>> ACCURACY.goal(0.9), Headline("rmse").goal(0.5)
        ('90.0 %', '0.5')
        """
        return self.head(
            f"{target * self.factor:.1f}" if self.share else f"{target * self.factor:.4g}"
        )

    def better(self, a: float, b: float) -> bool:
        """True if ``a`` is better than ``b``. Any number is better than NaN."""
        if math.isnan(a) or math.isnan(b):
            return math.isnan(b) and not math.isnan(a)
        return a > b if self.higher_is_better else a < b

    def gain(self, a: float, b: float) -> float:
        """By how much ``a`` is better than ``b``; negative if it is worse."""
        return a - b if self.higher_is_better else b - a

    def best(self, values: Iterable[float]) -> float:
        """The best of some values, without NaN; NaN if none is left."""
        numbers = [value for value in values if not math.isnan(value)]
        return (max if self.higher_is_better else min)(numbers, default=math.nan)

    def reaches(self, value: float, target: float) -> bool:
        """True if a value is at least as good as the target."""
        return value >= target if self.higher_is_better else value <= target

    def target(self, text: str) -> float:
        """Parse a target typed by the user: ``90%`` or ``0.9`` for a fraction, else display units.

        >>> ACCURACY.target("90%"), ACCURACY.target("0.9"), Headline("rmse").target("12.5")
        (0.9, 0.9, 12.5)
        """
        stripped = text.strip()
        digits = stripped.removesuffix(self.unit) if self.unit else stripped
        try:
            value = float(digits)
        except ValueError:
            value = math.nan
        value = value if self.share and digits == stripped else value / self.factor
        if self.share and not 0 < value <= 1:
            which = f"an {self.label}" if self.label[0] in "aeiou" else f"a {self.label}"
            raise SettingError(
                f"{which} lies between 0 and 1, or 0% and 100%, found {shown(text)}."
            )
        if not math.isfinite(value):
            raise SettingError(f"the {self.label} to reach must be a number, found {shown(text)}.")
        return value

    def as_json(self) -> dict[str, Any]:
        """The fields for run.json."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any] | None) -> Headline:
        """The headline in run.json; older run folders without one mean the accuracy."""
        return ACCURACY if fields is None else cls(**fields)


def common_target(target: float | str | None, headlines: Iterable[Headline]) -> float | None:
    """The target as a number; an error if runs with different headline scores have one target."""
    different = list(dict.fromkeys(headlines))
    if target is None or not different:
        return None
    if len(different) > 1:
        names = " and ".join(headline.label for headline in different)
        raise SettingError(
            f"one target cannot serve all runs: they have different headline scores ({names}). "
            "Leave it out, or select runs of one kind."
        )
    return different[0].target(target) if isinstance(target, str) else target


ACCURACY = Headline("accuracy", unit="%", factor=100.0)
"""Share of examples that get the right class."""
MIOU = Headline("miou", label="mIoU", unit="%", factor=100.0)
"""Mean intersection over union of the classes of pixels."""
