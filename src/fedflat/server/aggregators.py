"""Aggregators that replace the mean, for cohorts in which some clients may be attackers.

    median         coordinate-wise median                       Yin et al., ICML 2018
    trimmed_mean   coordinate-wise, without the extremes        Yin et al., ICML 2018
    krum           the most central replies                     Blanchard et al., NeurIPS 2017
    norm_clip      no reply longer than a given norm            Sun et al., 2019

An aggregator needs all replies of an exchange at once, so memory grows with the cohort. It replaces
the mean of the pseudo-gradients, both sized and uniform. Tensors that pieces add to replies, such
as control variates, are still averaged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedflat.errors import FedflatError, SettingError, number
from fedflat.registry.specs import TextSpec


class Aggregator(TextSpec, ABC):
    """Base class of aggregators: a frozen dataclass of numbers."""

    key: ClassVar[str]
    """Its name in messages."""

    def min_replies(self) -> int:
        """Return how many replies it needs."""
        return 1

    @abstractmethod
    def combine(self, deltas: Tensor, weights: Tensor) -> Tensor:
        """Return one vector from the rows of ``deltas``. ``weights`` sum to 1."""

    def combine_round(self, t: int, deltas: Tensor, weights: Tensor) -> Tensor:
        """Combine the replies of round ``t``. Raises `FedflatError` if there are too few."""
        if len(deltas) < self.min_replies():
            raise FedflatError(
                f"round {t + 1}: {self} needs at least {self.min_replies()} replies, but only "
                f"{len(deltas)} came that could be used. Use more clients a round, or expect fewer "
                "attackers; on_bad='raise' and no min_replies show why replies were left out."
            )
        return self.combine(deltas, weights)

    def check(self, cohort: int) -> None:
        """Raise `SettingError` if the cohort is too small."""
        if cohort < self.min_replies():
            raise SettingError(
                f"{self} needs at least {self.min_replies()} replies a round, but only "
                f"{cohort} clients are selected. Use more clients a round, or expect fewer "
                "attackers."
            )


@dataclass(frozen=True, repr=False)
class Median(Aggregator):
    """The median of each coordinate.

    For an even number of replies it is the mean of the middle two.
    """

    key = "median"

    def combine(self, deltas: Tensor, weights: Tensor) -> Tensor:
        """Return the median. Weights are ignored."""
        ordered = deltas.sort(dim=0).values
        n = len(ordered)
        return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2


@dataclass(frozen=True, repr=False)
class TrimmedMean(Aggregator):
    """The mean of each coordinate without the ``trim`` smallest and ``trim`` largest values."""

    trim: int

    key = "trimmed_mean"

    def __post_init__(self) -> None:
        number("trimmed_mean", "trim", self.trim, low=0, whole=True)

    def min_replies(self) -> int:
        """Return one more than are removed."""
        return 2 * self.trim + 1

    def combine(self, deltas: Tensor, weights: Tensor) -> Tensor:
        """Return the trimmed mean. Weights are ignored."""
        return deltas.sort(dim=0).values[self.trim : len(deltas) - self.trim].mean(dim=0)


@dataclass(frozen=True, repr=False)
class Krum(Aggregator):
    """The mean of the ``keep`` most central replies.

    Each is scored by its squared distances to its ``n - attackers - 2`` nearest neighbours.
    """

    attackers: int
    keep: int = 1

    key = "krum"

    def __post_init__(self) -> None:
        number("krum", "attackers", self.attackers, low=0, whole=True)
        number("krum", "keep", self.keep, low=1, whole=True)

    def min_replies(self) -> int:
        """Return the paper's bound, or ``keep`` if that is larger."""
        return max(2 * self.attackers + 3, self.keep)

    def combine(self, deltas: Tensor, weights: Tensor) -> Tensor:
        """Return the plain mean of the most central replies."""
        distances = torch.cdist(
            deltas, deltas, compute_mode="donot_use_mm_for_euclid_dist"
        ).square()
        neighbours = len(deltas) - self.attackers - 2
        scores = distances.sort(dim=1).values[:, 1 : neighbours + 1].sum(dim=1)
        return deltas[scores.argsort(stable=True)[: self.keep]].mean(dim=0)


@dataclass(frozen=True, repr=False)
class NormClip(Aggregator):
    """The weighted mean of replies, each scaled down to ``norm`` if it is longer."""

    norm: float

    key = "norm_clip"

    def __post_init__(self) -> None:
        number("norm_clip", "norm", self.norm, low=0, open_low=True)

    def combine(self, deltas: Tensor, weights: Tensor) -> Tensor:
        """Return the weighted mean of the clipped replies."""
        lengths: Tensor = torch.linalg.vector_norm(deltas, dim=1, keepdim=True)
        return weights.to(deltas) @ (deltas * (self.norm / lengths.clamp(min=self.norm)))
