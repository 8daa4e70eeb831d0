"""Groups that take whoever is least like them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedflat.errors import SettingError, choice
from fedflat.language.spelling import register
from fedflat.topology.grouping.dissimilarity import OF_DISTRIBUTIONS, TAUS, Vectors, scores
from fedflat.topology.grouping.grouping import DISTRIBUTIONS, Choice, Filling, Groups

ALIKE = 1e-12
"""Scores that differ by less are the same: rounding shall not decide who comes first."""


@dataclass(frozen=True, repr=False)
class Greedy(Filling):
    """Each group takes the client that is least like the mean of those it has.

    psi
        What clients are described by: ``"labels"``, ``"confidence"``, ``"classifier"`` or ``"task2vec"``.
    tau
        How unlike two descriptions are: ``"cosine"``, ``"euclidean"``, ``"gini"``, ``"kl"`` or ``"norm_cosine"``.
    d_min, k_max
        See ``random``.
    start
        ``"random"``: the first client of each group is drawn, and a group's mean counts every client once (the
        thesis). ``"uniform"``: the first is the client least like the uniform distribution, and the mean counts
        examples (the authors' release, which draws nothing).

    Only positive scores count; where there is none the first client comes, and of equal ones the first.
    """

    psi: str = "confidence"
    tau: str = "kl"
    d_min: int = 1000
    k_max: int = 11
    start: str = "random"

    def __post_init__(self) -> None:
        self.check_psi()
        choice("greedy", "tau", self.tau, TAUS)
        choice("greedy", "start", self.start, ["random", "uniform"])
        self.check_limits(self.d_min, self.k_max)
        if self.tau in OF_DISTRIBUTIONS and self.psi not in DISTRIBUTIONS:
            raise SettingError(
                f"greedy: tau={self.tau!r} compares probabilities of classes, and psi={self.psi!r} gives none. Use "
                "tau='cosine' or 'euclidean', or psi='confidence'."
            )

    def assign(
        self, representers: Vectors, sizes: Sequence[int], rng: np.random.Generator, *, classes: int | None = None
    ) -> Groups:
        """See `Grouping.assign`."""
        vectors = self.checked(representers, sizes)
        if self.tau in OF_DISTRIBUTIONS and not _distributions(vectors):
            raise SettingError(
                f"greedy: tau={self.tau!r} compares probabilities of classes, but what clients sent is not "
                "non-negative or does not sum to one. Use tau='cosine' or 'euclidean'."
            )
        return self.fill(self._chooser(vectors, sizes, rng), sizes, self.d_min, self.k_max)

    def _chooser(self, vectors: Vectors, sizes: Sequence[int], rng: np.random.Generator) -> Choice:
        drawn = self.start == "random"
        weights = np.ones(len(sizes)) if drawn else np.asarray(sizes, np.float64)
        uniform = np.full(vectors.shape[1], 1 / vectors.shape[1])
        total = np.zeros_like(uniform)

        def choose(group: list[int], free: np.ndarray) -> int:
            nonlocal total
            if not group and drawn:
                return int(free[rng.integers(len(free))])
            if group:
                total = total * (len(group) > 1) + weights[group[-1]] * vectors[group[-1]]
            mean = total / weights[group].sum() if group else uniform
            found = scores(self.tau, mean, vectors, free)
            best = found.max()
            return int(free[np.argmax(found >= best - ALIKE)] if best > 0 else free[0])

        return choose


def _distributions(vectors: Vectors) -> bool:
    return bool((vectors >= 0).all() and np.allclose(vectors.sum(1), 1))


greedy = register("grouping", "greedy")(Greedy)
