"""The rounds in which models are evaluated, and how many of them a run can afford.

Evaluations change no trained number. By default a run is evaluated about 100 times and in each of
its last rounds. If that is estimated to take more than a fifth of the time, there are fewer.
The estimate counts operations and is not timed (`fedflat.experiments.run_cost`), so the same
settings always give the same rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fedflat.experiments.run_folder.experiment_texts import selects_by_validation
from fedflat.settings.groups import EvaluateSettings, last_tenth

SHARE = 0.2
"""The largest share of the time that evaluations take by default."""
UNNOTICED = 1.0
"""Estimated seconds of evaluations in a run below which their share does not matter."""


@dataclass(frozen=True, kw_only=True)
class EvaluationSchedule(EvaluateSettings):
    """When to evaluate: every so many rounds, in each of the last ones, and at the end."""

    defaults: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """Which of ``every`` and ``last`` were not given, so that `affordable` may change them."""

    @classmethod
    def of(cls, rounds: int, given: Mapping[str, Any]) -> EvaluationSchedule:
        """The schedule of a run of so many rounds, with defaults for what was not given."""
        usual = {"every": max(1, rounds // 100), "last": last_tenth(rounds)}
        return cls(**{**usual, **given, "defaults": frozenset(usual.keys() - given.keys())})

    def rounds(self, end: int, *ends: int) -> frozenset[int]:
        """The rounds before ``end`` that models are evaluated in; ``end`` and ``ends`` stop a
        run."""
        last = (range(max(0, one - self.last), min(one, end)) for one in (end, *ends))
        return frozenset().union(range(self.every - 1, end, self.every), *last)

    def texts(self) -> dict[str, Any]:
        """The settings, as run.json keeps them."""
        return {name: value for name, value in asdict(self).items() if name != "defaults"}

    @property
    def by_validation(self) -> bool:
        """Whether the validation set chooses the model that the run reports."""
        return selects_by_validation(self.select_by, self.patience)

    def affordable(self, rounds: int, round: float, evaluation: float) -> EvaluationSchedule:
        """The schedule with fewer evaluations, if they take more than their share of the time.

        Half of the evaluations that the run can afford are those of the last rounds, if there are
        not enough for more. Values that were given stay as they are.

        >>> usual = EvaluationSchedule.of(100, {})
        >>> usual.every, usual.last, len(usual.rounds(100))
        (1, 10, 100)
        >>> fewer = usual.affordable(100, round=3.0, evaluation=4.0)  # 18 evaluations: 72 of 372 s
        >>> fewer.every, fewer.last, len(fewer.rounds(100))
        (10, 9, 18)
        >>> usual.affordable(100, round=3.0, evaluation=0.7) == usual
        True

        Args:
            rounds: the number of rounds.
            round: seconds of training in a round.
            evaluation: seconds of one evaluation.
        """
        schedule = replace(self, defaults=frozenset())
        budget = max(SHARE / (1 - SHARE) * rounds * round, UNNOTICED)
        if not self.defaults or len(self.rounds(rounds)) * evaluation <= budget:
            return schedule
        most = max(1, int(budget / evaluation))
        if "last" in self.defaults:
            schedule = replace(schedule, last=max(1, min(self.last, most // 2)))
        if "every" in self.defaults:
            longest = min(rounds, self.patience or rounds)
            for every in (*_steps(self.every, longest), longest):
                schedule = replace(schedule, every=every)
                if len(schedule.rounds(rounds)) <= most:
                    break
        return schedule


def _steps(first: int, longest: int) -> Iterator[int]:
    """Numbers of rounds between evaluations: 1, 2, 5, 10, 20, 50 and so on."""
    scale = 1
    while scale <= longest:
        yield from (step for step in (scale, 2 * scale, 5 * scale) if first <= step <= longest)
        scale *= 10
