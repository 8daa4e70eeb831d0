"""Clients with unlabelled images, and labelled images of another set in each batch.

    with_source(street(), street(style="game"))     for unsupervised domain adaptation (`mcd`)

Each batch of a client's images also has as many random labelled images, which come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedflat.data.batch import Batch
from fedflat.data.derived import DerivedSet, changed
from fedflat.data.examples import AnyExamples, ClientData
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.unlabelled import Targetless
from fedflat.errors import SettingError
from fedflat.registry.specs import register

IGNORE = 255


@dataclass(frozen=True)
class Beside(Targetless):
    """Examples without targets, with as many labelled ones in each batch."""

    source: ClientData
    """The labelled examples."""

    @property
    def augments(self) -> bool:
        """Always True: labelled examples are drawn at random."""
        return True

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        """Labelled examples (random if ``rng`` is given), then those at ``index``, which are
        ignored."""
        places = (
            torch.randint(len(self.source), (len(index),), generator=rng)
            if rng
            else index % len(self.source)
        )
        labelled, unlabelled = (
            self.source.batch(places, dtype, rng),
            self.examples.batch(index, dtype, rng),
        )
        if labelled.inputs.shape[1:] != unlabelled.inputs.shape[1:]:
            raise SettingError(
                "with_source: images of the source have the shape "
                f"{tuple(labelled.inputs.shape[1:])}, the clients' own "
                f"{tuple(unlabelled.inputs.shape[1:])}. Give both the same size or crop."
            )
        targets = torch.cat([labelled.targets, torch.full_like(unlabelled.targets, IGNORE)])
        return Batch(torch.cat([labelled.inputs, unlabelled.inputs]), targets)

    def to(self, device: str) -> Beside:
        return replace(self, examples=self.examples.to(device), source=self.source.to(device))

    def traces(self) -> Sequence[Any]:
        return [*self.examples.traces(), *self.source.examples.traces()]


@dataclass(frozen=True)
class Putting:
    """Adds the labelled examples to others."""

    source: ClientData

    def __call__(self, examples: AnyExamples) -> AnyExamples:
        return Beside(examples.with_blank_targets(), self.source)


@dataclass(frozen=True, repr=False)
class WithSource(DerivedSet):
    """Clients without labels that also have all labelled images of a source.

    The test sets are those of the clients' data set.
    """

    source: DataSpec

    def open(self, seed: int) -> Federation:
        """The federation with the source at every client."""
        fed, source = self.on.open(seed), self.source.open(seed).pooled()
        if fed.classes != source.classes:
            raise SettingError(
                f"with_source: {self.on} has {fed.classes} classes, {self.source} "
                f"{source.classes}. Use sets of the same classes."
            )
        return changed(
            fed, Putting(source.data(0)), "with_source: a source can be put beside clients"
        )


with_source = register("data set", "with_source")(WithSource)
