"""A cell of a table: the run behind it, and the number that the paper reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fedflat.errors import SettingError, SpellingError, nearest, number, shown
from fedflat.papers.presets.preset import FLATNESS, TO_TARGET, Preset

if TYPE_CHECKING:
    from fedflat.experiments.experiment import Experiment

TESTS = "tests."
"""Prefix of measures on a further test set."""


@dataclass(frozen=True, kw_only=True)
class TableCell:
    """One number of a table. It is stored in the folder of the plan as JSON."""

    name: str
    """``paper/row``, unique in the folder."""
    arguments: Mapping[str, Any]
    """The paper's arguments of `fedflat.experiment`, without a seed."""
    reported: float | None
    """The printed number in the unit of the headline, e.g. accuracy in per cent. None if none is
    printed.
    """
    spread: float | None = None
    """The printed standard deviation."""
    diverges: bool = False
    """True if the paper prints an X: the run does not converge."""
    table: str = ""
    note: str = ""
    seeds: Sequence[int] = field(default_factory=tuple)
    """The authors' seeds, if they are known."""
    measure: str = "accuracy"
    """The reported score: "accuracy", or another headline, over the last rounds; the headline on
    a further test set, as in "tests.unseen"; "personal", the personalized score of the best round;
    or a name in `fedflat.papers.presets.preset`.
    """
    target: float | str | None = None
    """The score to reach, for "rounds", "cost" and "speedup": a number in the unit of the
    headline, the name of a cell whose score it is, or a factor and a name: "0.7*paper/row".
    """
    at: float = 1.0
    """The share of the rounds after which the score is reported."""
    where: str = "test"
    """The examples on which curvature is measured, "test" or "train"."""
    unreached: bool = False
    """True if the paper says that the target is not reached."""

    @classmethod
    def of(cls, preset: Preset) -> TableCell:
        arguments = {name: value for name, value in preset.arguments().items() if name != "seed"}
        return cls(
            name=preset.name,
            arguments=arguments,
            reported=preset.reported,
            spread=preset.spread,
            diverges=preset.reported is None and not preset.not_printed and not preset.unreached,
            table=preset.table,
            note=preset.note,
            seeds=preset.seeds,
            measure=preset.measure,
            target=preset.target,
            at=preset.at,
            where=preset.where,
            unreached=preset.unreached,
        )

    @property
    def needs_target(self) -> bool:
        """True if its number is what it took to reach a target."""
        return self.measure in TO_TARGET

    @property
    def needs_curvature(self) -> bool:
        """True if its number is about curvature, which is measured after the run."""
        return self.measure in FLATNESS

    @property
    def test(self) -> str:
        """The further test set of the measure. Empty for the main one."""
        return self.measure.removeprefix(TESTS) if self.measure.startswith(TESTS) else ""

    @property
    def network(self) -> str:
        """The name of its model without settings, such as `cnn`."""
        return str(self.arguments.get("model") or "").partition("(")[0]

    @property
    def rounds(self) -> int:
        return int(self.arguments["rounds"])

    @property
    def figure(self) -> str:
        """The reported number as text: ``83.9 ± 0.4``, ``X``, or ``-`` for none."""
        if self.reported is None:
            return "X" if self.diverges else "-"
        return f"{self.reported}" + (f" ± {self.spread}" if self.spread is not None else "")

    def experiment(self, seed: int, rounds: int | None = None) -> Experiment:
        """Return its experiment. With `rounds`, every schedule is stretched to that length."""
        from fedflat.experiments.api import experiment
        from fedflat.papers.presets.stretch import stretch

        arguments = self.arguments if rounds is None else stretch(self.arguments, rounds)
        return experiment(**{**arguments, "seed": seed})

    def seeded(self, asked: int | Sequence[int] | None) -> list[int]:
        """Return the seeds to run.

        `asked` is how many of the authors' seeds (or of 0, 1, ...) to use, a list of seeds, or None
        for the first.
        """
        if asked is None:
            return [self.seeds[0] if self.seeds else 0]
        if not isinstance(asked, int):
            return list(asked)
        number("reproduce", "seeds", asked, low=1, whole=True)
        if self.seeds and asked > len(self.seeds):
            known = ", ".join(map(str, self.seeds))
            raise SettingError(
                f"reproduce: {asked} seeds were requested, but the authors of {self.name} have "
                f"{len(self.seeds)}: {known}. Use at most {len(self.seeds)}, or list seeds: "
                "--seeds 0,1,2,3."
            )
        return list(self.seeds[:asked] or range(asked))

    def with_flatness(self, measure: str, where: str) -> TableCell:
        """Return the cell of the same run that reports its curvature. The paper has no number."""
        if measure not in FLATNESS:
            raise SpellingError(
                f"--flatness: {shown(measure)} is not known.{nearest(measure, FLATNESS)} Known: "
                f"{', '.join(FLATNESS)}."
            )
        return self._without_number(f"@{measure}", measure=measure, where=where)

    def with_target(self, target: str) -> TableCell:
        """Return the cell of the same run that reports the rounds to a target.

        The target is a number with or without ``%``, the name of a cell, or a factor and a name.
        """
        digits = target.strip().removesuffix("%")
        try:
            goal: float | str = float(digits)
        except ValueError:
            goal = target
        return self._without_number(f"@{target.replace(' ', '')}", measure="rounds", target=goal)

    def _without_number(self, ending: str, **changed: Any) -> TableCell:
        none: dict[str, Any] = {"reported": None, "spread": None, "table": "", "note": ""}
        none |= {"diverges": False, "unreached": False, "target": None}
        return replace(self, name=f"{self.name}{ending}", at=1.0, **{**none, **changed})

    def with_average(self, average: str) -> TableCell:
        """Return the same run with one more averaged model. The paper has no number for it."""
        average_name = average.partition("(")[0].strip()
        paper = self.name.partition("/")[0]
        # The text is part of stored plans: changing it would make them differ.
        note_text = f"{paper}'s run with {average} beside it; the paper has no such number."
        return replace(
            self,
            name=f"{self.name}+{average_name}",
            reported=None,
            spread=None,
            diverges=False,
            table="",
            note=note_text,
            arguments={**self.arguments, "method": f"{self.arguments['method']} + {average}"},
        )
