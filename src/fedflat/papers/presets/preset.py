"""What a preset is: the texts and numbers of one run of a paper, and what the paper reports for
it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedflat.settings.groups import last_tenth

if TYPE_CHECKING:
    from fedflat.experiments.experiment import Experiment


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One run, as its authors set it up."""

    name: str
    """``paper/column-method``."""
    method: str
    on: str
    model: str
    rounds: int
    settings: Mapping[str, Any]
    """The other arguments of `fedflat.experiment`, as far as the paper says them."""
    reported: float | None
    """The number the paper prints, an accuracy or mean IoU in per cent; None: it says that the run
    does not converge, or nothing (``unsaid``)."""
    unsaid: bool = False
    """Whether there is no number to compare with."""
    spread: float | None = None
    """The standard deviation printed beside it."""
    table: str
    note: str = ""
    column: str = ""
    """The shorter name of the main run of a column."""
    seeds: tuple[int, ...] = ()
    """The authors' seeds, where they are known; the first one is used if nothing else is said."""
    measure: str = "accuracy"
    """What is reported: the "accuracy", or what else the run is judged by, over the last rounds;
    the same on a further test set, as in "tests.unseen"; or the best round of "personal"."""

    def arguments(self, **changed: Any) -> dict[str, Any]:
        """The arguments of `fedflat.experiment`, or of `fedflat.run`, with some of them replaced.

        In a run of fewer rounds than the paper's at most the last tenth of them counts, unless it
        is said.
        """
        said: dict[str, Any] = {
            "method": self.method,
            "on": self.on,
            "rounds": self.rounds,
            "model": self.model,
        }
        said |= ({"seed": self.seeds[0]} if self.seeds else {}) | dict(self.settings) | changed
        if "eval_last" not in changed and said["rounds"] != self.rounds:
            said["eval_last"] = min(said["eval_last"], last_tenth(said["rounds"]))
        return said

    def experiment(self, **overrides: Any) -> Experiment:
        """The experiment, with some of its settings replaced.

        >>> from fedflat.papers.presets import find
        >>> exp = find("fedgloss/cifar10-cnn-alpha0").experiment(rounds=50, seed=42)
        >>> exp.method
        fedgloss(rho_s=0.15, rho_l=0.15, beta=10, T_s=2000)
        >>> exp.rounds, exp.seed, exp.local.weight_decay
        (50, 42, 0.0004)
        """
        from fedflat.experiments.api import experiment

        return experiment(**self.arguments(**overrides))

    @property
    def figure(self) -> str:
        """The paper's number as text.

        >>> from fedflat.papers.presets import find
        >>> find("fedgloss/cifar10-cnn-alpha0").figure, find("fedgloss/cifar100-cnn-alpha0-feddyn").figure
        ('83.9 ± 0.4', 'X')
        """
        if self.reported is None:
            return "-" if self.unsaid else "X"
        return f"{self.reported}" + (f" ± {self.spread}" if self.spread is not None else "")
