"""Groups that each add the client least similar to them (FedSeq's greedy grouping)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedflat.client.instructions import Describer
from fedflat.errors import SettingError, choice
from fedflat.registry.specs import register
from fedflat.topologies.groupings.dissimilarity import OF_DISTRIBUTIONS, TAUS, Vectors, scores
from fedflat.topologies.groupings.grouping import Choice, Filling, Groups

ALIKE = 1e-12
"""Scores that differ by less are equal, so that rounding does not decide."""
ROUGHLY = 1e-3
"""Single-precision scores that are lower by more cannot be the best: their errors are a hundred
times smaller."""


@dataclass(frozen=True, repr=False)
class Greedy(Filling):
    """Each group adds the client that is least similar to the mean of its clients.

    psi
        The description of clients: ``"labels"``, ``"confidence"``, ``"classifier"``,
        ``"task2vec"``, or a describer with its arguments, such as ``classifier_weights(epochs=5)``.
    tau
        The dissimilarity: ``"cosine"``, ``"euclidean"``, ``"gini"``, ``"kl"`` or ``"norm_cosine"``.
    d_min, k_max
        See ``random``.
    start
        ``"random"``: the first client of each group is random, and a group's mean counts every
        client once (the thesis). ``"uniform"``: the first is the client least similar to the
        uniform distribution, and the mean counts examples (the authors' release, which is
        deterministic).

    Only positive scores count. If there is none, the first client is added; of equal ones the
    first.
    """

    psi: str | Describer = "confidence"
    tau: str = "kl"
    d_min: int = 1000
    k_max: int = 11
    start: str = "random"

    def __post_init__(self) -> None:
        self.check_psi()
        choice("greedy", "tau", self.tau, TAUS)
        choice("greedy", "start", self.start, ["random", "uniform"])
        self.check_limits(self.d_min, self.k_max)
        if self.tau in OF_DISTRIBUTIONS and not all(
            one.gives_distribution for one in self.describers
        ):
            raise SettingError(
                f"greedy: tau={self.tau!r} compares probabilities of classes, but psi={self.psi!r} "
                "gives none. Use tau='cosine' or 'euclidean', or psi='confidence'."
            )

    def assign(
        self,
        representers: Vectors,
        sizes: Sequence[int],
        rng: np.random.Generator,
        *,
        classes: int | None = None,
    ) -> Groups:
        vectors = self.checked(representers, sizes)
        if self.tau in OF_DISTRIBUTIONS and not _distributions(vectors):
            raise SettingError(
                f"greedy: tau={self.tau!r} compares probabilities of classes, but what clients "
                "sent is negative or does not sum to one. Use tau='cosine' or 'euclidean'."
            )
        return self.fill(self._chooser(vectors, sizes, rng), sizes, self.d_min, self.k_max)

    def _chooser(self, vectors: Vectors, sizes: Sequence[int], rng: np.random.Generator) -> Choice:
        random_start = self.start == "random"
        weights = np.ones(len(sizes)) if random_start else np.asarray(sizes, np.float64)
        uniform = np.full(vectors.shape[1], 1 / vectors.shape[1])
        rough: Any = (
            vectors.astype(np.float32) if self.tau == "norm_cosine" and _moderate(vectors) else None
        )
        total = np.zeros_like(uniform)

        def choose(group: list[int], free: np.ndarray) -> int:
            nonlocal total
            if not group and random_start:
                return int(free[rng.integers(len(free))])
            if group:
                total = total * (len(group) > 1) + weights[group[-1]] * vectors[group[-1]]
            mean = total / weights[group].sum() if group else uniform
            among = free
            if rough is not None:  # halves the time of the slowest part
                rough_scores = scores(self.tau, mean.astype(rough.dtype), rough, free)
                among = free[rough_scores >= rough_scores.max() - ROUGHLY]
            found = scores(self.tau, mean, vectors, among)
            best = found.max()
            return int(among[np.argmax(found >= best - ALIKE)] if best > 0 else free[0])

        return choose


def _distributions(vectors: Vectors) -> bool:
    return bool((vectors >= 0).all() and np.allclose(vectors.sum(1), 1))


def _moderate(vectors: Vectors) -> bool:
    """Whether squares of these numbers, over squares of sums with 1e-8, fit single precision."""
    return bool(vectors.min() >= 0 and vectors.max() < 1e15 and vectors.max(1).min() > 1e-15)


greedy = register("grouping", "greedy")(Greedy)
