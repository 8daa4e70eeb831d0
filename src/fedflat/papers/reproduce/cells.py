"""A cell of a table: the run behind it, and the number that the paper reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fedflat.errors import SettingError, number
from fedflat.papers.presets.preset import Preset

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
    a further test set, as in "tests.unseen"; or "personal", the personalized score of the best
    round.
    """

    @classmethod
    def of(cls, preset: Preset) -> TableCell:
        """Make the cell of a preset."""
        arguments = {name: value for name, value in preset.arguments().items() if name != "seed"}
        return cls(
            name=preset.name,
            arguments=arguments,
            reported=preset.reported,
            spread=preset.spread,
            diverges=preset.reported is None and not preset.unsaid,
            table=preset.table,
            note=preset.note,
            seeds=preset.seeds,
            measure=preset.measure,
        )

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
        """The number of rounds in the paper."""
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

    def with_shadow(self, shadow: str) -> TableCell:
        """Return the same run with one more averaged model. The paper has no number for it."""
        average_name = shadow.partition("(")[0].strip()
        paper = self.name.partition("/")[0]
        # The text is part of stored plans: changing it would make them differ.
        note_text = f"{paper}'s run with {shadow} beside it; the paper has no such number."
        return replace(
            self,
            name=f"{self.name}+{average_name}",
            reported=None,
            spread=None,
            diverges=False,
            table="",
            note=note_text,
            arguments={**self.arguments, "method": f"{self.arguments['method']} + {shadow}"},
        )
