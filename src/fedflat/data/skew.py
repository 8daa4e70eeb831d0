"""Statistics of how unequal clients are: sizes, classes, and distance of label distributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedflat.data.partitions.partition import Index


@dataclass(frozen=True)
class Skew:
    """Statistics of a partition.

    ``distance`` is the mean over clients of the total-variation distance ``sum_c |p_k(c) - p(c)| /
    2`` between the label distributions of the client and of all clients: 0 if all are equal, always
    below 1. The statistics cover ``clients`` out of ``population`` clients.
    """

    clients: int
    examples: int
    size_min: int
    size_median: float
    size_max: int
    classes: int
    classes_min: int
    classes_mean: float
    classes_max: int
    distance: float
    population: int

    @classmethod
    def of(cls, labels: Index, parts: Sequence[Index], classes: int) -> Skew:
        """The statistics of a partition, given as positions in ``labels``.

        >>> skew = Skew.of(np.array([0, 0, 1, 1]), [np.array([0, 1]), np.array([2, 3])], 2)
        >>> skew.classes_mean, skew.distance
        (1.0, 0.5)
        """
        return cls.of_counts(
            np.stack([np.bincount(labels[part], minlength=classes) for part in parts])
        )

    @classmethod
    def of_counts(cls, counts: Index, population: int | None = None) -> Skew:
        """The statistics of counts: clients in rows, classes in columns.

        >>> Skew.of_counts(np.array([[3, 0], [0, 1]])).distance
        0.5
        """
        sizes, held = counts.sum(1), (counts > 0).sum(1)
        together = counts.sum(0) / counts.sum()
        distance = np.abs(counts / sizes[:, None] - together).sum(1).mean() / 2
        return cls(
            clients=len(counts),
            examples=int(sizes.sum()),
            size_min=int(sizes.min()),
            size_median=float(np.median(sizes)),
            size_max=int(sizes.max()),
            classes=counts.shape[1],
            classes_min=int(held.min()),
            classes_mean=float(held.mean()),
            classes_max=int(held.max()),
            distance=float(distance),
            population=len(counts) if population is None else population,
        )

    def describe(self) -> str:
        """The statistics in three lines; in one line if there are no classes."""
        among = f" (looked at out of {self.population})" if self.population > self.clients else ""
        sizes = (
            f"{self.clients} clients{among}, {self.examples} examples: {self.size_min} to "
            f"{self.size_max} each, median {self.size_median:g}"
        )
        if self.classes < 2:
            return sizes
        return (
            f"{sizes}\nclasses per client: {self.classes_min} to {self.classes_max} of "
            f"{self.classes}, mean {self.classes_mean:.2f}\ndistance of a client's labels to "
            f"everyone's: {self.distance:.3f} (0 alike, 1 apart)"
        )
