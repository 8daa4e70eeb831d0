"""Label flipping: some clients swap the labels of pairs of classes in all their data, for the whole run.

    label_flip(cifar10(lda(100)), attackers=0.2, pairs=[[0, 2], [3, 5]])
    label_flip(cifar100(lda(100)), attackers=0.2, count=10, among="intra")

``draw="fixed"`` takes one set of pairs for all attackers, ``"random"`` one for each of them. ``among="intra"`` pairs
classes of one superclass, ``"extra"`` takes every class from another superclass. Test data are never touched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fedflat.data.federation import DataSpec, Dealt, Federation
from fedflat.data.sets.cifar100 import FINE_TO_COARSE, Cifar100
from fedflat.engine.seeds import numpy_generator
from fedflat.errors import SettingError, choice, number
from fedflat.language.spelling import register

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, repr=False)
class LabelFlip(DataSpec):
    """A data set of which a share of the clients lies about labels."""

    stored = False
    origin = "is a change of another set"

    on: DataSpec
    attackers: float = 0.2
    pairs: Pairs | None = None
    """The classes to swap; None: ``count`` pairs are drawn."""
    count: int = 1
    draw: str = "fixed"
    among: str = "any"

    def __post_init__(self) -> None:
        number("label_flip", "attackers", self.attackers, low=0, high=1)
        number("label_flip", "count", self.count, low=1, whole=True)
        choice("label_flip", "draw", self.draw, ["fixed", "random"])
        choice("label_flip", "among", self.among, ["any", "intra", "extra"])
        if not isinstance(self.on, DataSpec):
            raise SettingError(f"label_flip: labels are flipped in a data set, found {self.on!r}.")
        if self.pairs is not None:
            object.__setattr__(self, "pairs", _checked(self.pairs))
        if self.among != "any" and not (isinstance(self.on, Cifar100) and self.on.labels == "fine"):
            raise SettingError(f"label_flip: among={self.among!r} needs superclasses; {self.on} has none.")

    def class_names(self) -> tuple[str, ...]:
        """See `DataSpec.class_names`."""
        return self.on.class_names()

    def open(self, seed: int) -> Federation:
        """The federation with the attackers' labels swapped."""
        fed = self.on.open(seed)
        if not isinstance(fed, Dealt):
            raise SettingError(
                f"label_flip: labels are flipped in examples that are dealt out, but the clients of {self.on} are made "
                "when asked for. Use another data set, such as digits."
            )
        if not fed.classes:
            raise SettingError(f"label_flip: classes are swapped, and {self.on} has none. Use data with classes.")
        liars = self.liars(fed.population, seed)
        y = fed.train.labels.clone()
        for client in liars:
            swap = self._swap(fed.classes, seed, client)
            index = fed.parts[client]
            y[index] = swap[y[index]]
        return replace(fed, train=fed.train.retargeted(y))

    def liars(self, population: int, seed: int) -> list[int]:
        """The attackers among ``population`` clients."""
        rng = numpy_generator(seed, "attackers")
        chosen = rng.choice(population, size=round(self.attackers * population), replace=False)
        return sorted(chosen.tolist())

    def _swap(self, classes: int, seed: int, client: int) -> Tensor:
        """A permutation of the labels that is its own inverse."""
        path = (client,) if self.draw == "random" else ()
        pairs = self.pairs or self._drawn(classes, numpy_generator(seed, "label pairs", *path))
        swap = torch.arange(classes)
        for a, b in pairs:
            if not (0 <= a < classes and 0 <= b < classes):
                raise SettingError(f"label_flip: pair {(a, b)} names a class that is not there (0 to {classes - 1}).")
            swap[a], swap[b] = b, a
        return swap

    def _drawn(self, classes: int, rng: np.random.Generator) -> Pairs:
        coarse = np.array(FINE_TO_COARSE)
        groups = 20 if self.among != "any" else classes // 2
        least = {"any": 2 * self.count, "intra": self.count, "extra": 2 * self.count}[self.among]
        if least > (classes if self.among == "any" else groups):
            raise SettingError(f"label_flip: {self.count} pairs ({self.among}) cannot be drawn from {classes} classes.")
        if self.among == "any":
            labels = rng.permutation(classes)[: 2 * self.count]
        elif self.among == "extra":
            chosen = rng.permutation(groups)[: 2 * self.count]
            labels = np.array([rng.choice(np.flatnonzero(coarse == group)) for group in chosen])
        else:
            chosen = rng.permutation(groups)[: self.count]
            both = [rng.choice(np.flatnonzero(coarse == g), size=2, replace=False) for g in chosen]
            labels = np.concatenate(both)
        return tuple((int(a), int(b)) for a, b in labels.reshape(-1, 2))


def _checked(pairs: object) -> Pairs:
    """The pairs as tuples; refuses whatever is not made of pairs of different classes."""
    rows = pairs if isinstance(pairs, list | tuple) else ()
    fits = bool(rows) and all(isinstance(row, list | tuple) and len(row) == 2 for row in rows)
    named = [label for row in rows for label in row] if fits else []
    if not fits or not all(type(label) is int for label in named) or len(set(named)) != len(named):
        raise SettingError(f"label_flip: pairs must be pairs of different classes, found {pairs!r}.")
    return tuple((a, b) for a, b in rows)


label_flip = register("data set", "label_flip")(LabelFlip)
