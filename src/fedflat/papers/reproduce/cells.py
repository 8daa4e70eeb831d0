"""What is run for a cell of a table, and what is reported for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fedflat.errors import SettingError, number
from fedflat.papers.presets.preset import Preset

if TYPE_CHECKING:
    from fedflat.experiments.experiment import Experiment

TESTS = "tests."
"""Before the name of a further test set."""


@dataclass(frozen=True, kw_only=True)
class TableCell:
    """One number of a table. What is known of it goes into the folder as JSON, and comes from there
    again."""

    name: str
    """``paper/row``; nothing else in the folder has this name."""
    arguments: Mapping[str, Any]
    """The arguments of `fedflat.experiment`, as the paper has them, without a seed."""
    reported: float | None
    """The number printed, an accuracy in per cent or what else the run is judged by; None: none
    is."""
    spread: float | None = None
    """The standard deviation printed beside it."""
    diverges: bool = False
    """Whether an X is printed instead: the run does not converge."""
    table: str = ""
    note: str = ""
    seeds: Sequence[int] = field(default_factory=tuple)
    """The authors' seeds, where they are known."""
    measure: str = "accuracy"
    """What is reported: the "accuracy", or whatever the run is judged by, over the last rounds; the
    same on a further test set, as in "tests.unseen"; or the best round of "personal"."""

    @classmethod
    def of(cls, preset: Preset) -> TableCell:
        """The cell that a preset is."""
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
        """The further test set that it is measured on; empty for the main one."""
        return self.measure.removeprefix(TESTS) if self.measure.startswith(TESTS) else ""

    @property
    def network(self) -> str:
        """The kind of its network, such as ``cnn``, whatever its settings: what is set side by side
        with others."""
        return str(self.arguments.get("model") or "").partition("(")[0]

    @property
    def rounds(self) -> int:
        """The paper's rounds."""
        return int(self.arguments["rounds"])

    @property
    def figure(self) -> str:
        """What is reported, as text: ``83.9 ± 0.4``, ``X``, or ``-`` for nothing."""
        if self.reported is None:
            return "X" if self.diverges else "-"
        return f"{self.reported}" + (f" ± {self.spread}" if self.spread is not None else "")

    def experiment(self, seed: int, rounds: int | None = None) -> Experiment:
        """Its run; in ``rounds`` rounds, with every schedule stretched."""
        from fedflat.experiments.api import experiment
        from fedflat.papers.presets.stretch import stretch

        arguments = self.arguments if rounds is None else stretch(self.arguments, rounds)
        return experiment(**{**arguments, "seed": seed})

    def seeded(self, asked: int | Sequence[int] | None) -> list[int]:
        """The seeds to run: how many of the authors' (or of 0, 1, ...), or which."""
        if asked is None:
            return [self.seeds[0] if self.seeds else 0]
        if not isinstance(asked, int):
            return list(asked)
        number("reproduce", "seeds", asked, low=1, whole=True)
        if self.seeds and asked > len(self.seeds):
            known = ", ".join(map(str, self.seeds))
            raise SettingError(
                f"reproduce: {asked} seeds were asked for, but the authors of {self.name} name {len(self.seeds)}: "
                f"{known}. Ask for at most {len(self.seeds)}, or list seeds: --seeds 0,1,2,3."
            )
        return list(self.seeds[:asked] or range(asked))

    def with_shadow(self, shadow: str) -> TableCell:
        """The same run with one more model averaged: a cell of which the paper says nothing."""
        word = shadow.partition("(")[0].strip()
        said = f"{self.name.partition('/')[0]}'s run with {shadow} beside it; the paper has no such number."
        return replace(
            self,
            name=f"{self.name}+{word}",
            reported=None,
            spread=None,
            diverges=False,
            table="",
            note=said,
            arguments={**self.arguments, "method": f"{self.arguments['method']} + {shadow}"},
        )
