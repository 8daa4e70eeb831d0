"""What an attack costs: by how much a run is below the same run without it, where both are at
hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fedflat.experiments.run_folder.signed import sign
from fedflat.tasks.headline import Headline

DROP = "drop"
"""Its name beside the scores on further test sets."""


class Attacked(Protocol):
    """A result, as far as it matters here."""

    @property
    def headline(self) -> Headline:
        """The score it is judged by."""
        ...

    @property
    def attack(self) -> str:
        """The text of its attack, empty without one."""
        ...

    @property
    def twin(self) -> str:
        """See `twin_of`."""
        ...

    def final(self) -> float:
        """The headline it comes to."""
        ...


def twin_of(experiment: Mapping[str, Any]) -> str:
    """A digest of a run's settings, the seed among them, but for the attack; empty if only Python
    can say them all."""
    if any(experiment.get(name) is None for name in ("on", "model", "loss")):
        return ""
    return sign(
        {name: value for name, value in experiment.items() if name not in ("attack", "plugins")}
    )


def drops(runs: Sequence[Attacked], among: Sequence[Attacked]) -> list[float]:
    """For each of these runs, how much worse it is than its twin without an attack; nothing if one
    has no such twin.

    What is worse is positive, whichever direction is better.
    """
    clean = {one.twin: one for one in among if one.twin and not one.attack}
    if not all(run.attack and run.twin in clean for run in runs):
        return []
    sign_of = 1 if runs[0].headline.higher_is_better else -1
    return [sign_of * (clean[run.twin].final() - run.final()) for run in runs]
