"""Clients with images of their own, without labels, and labelled images of another set beside them.

    with_source(street(), street(style="game"))     what unsupervised domain adaptation has (`mcd`)

Each batch of a client's images comes with as many labelled ones, drawn anew: these stand first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedflat.data.batch import Batch
from fedflat.data.changed import changed
from fedflat.data.derived_set import DerivedSet
from fedflat.data.examples import AnyExamples, ClientData
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.unlabelled import Targetless
from fedflat.errors import SettingError
from fedflat.registry.specs import register

IGNORE = 255


@dataclass(frozen=True)
class Beside(Targetless):
    """Examples without targets, and as many with targets in each batch."""

    source: ClientData
    """The labelled ones."""

    @property
    def augments(self) -> bool:
        """They do: who stands beside whom is drawn."""
        return True

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        """The labelled ones, drawn anew if there is a generator, and then those at ``index``, all
        of them ignored."""
        places = (
            torch.randint(len(self.source), (len(index),), generator=rng)
            if rng
            else index % len(self.source)
        )
        given, own = self.source.batch(places, dtype, rng), self.examples.batch(index, dtype, rng)
        if given.inputs.shape[1:] != own.inputs.shape[1:]:
            raise SettingError(
                f"with_source: images of the source have the shape {tuple(given.inputs.shape[1:])}, the clients' own "
                f"{tuple(own.inputs.shape[1:])}. Give both the same size or crop."
            )
        targets = torch.cat([given.targets, torch.full_like(own.targets, IGNORE)])
        return Batch(torch.cat([given.inputs, own.inputs]), targets)

    def to(self, device: str) -> Beside:
        return replace(self, examples=self.examples.to(device), source=self.source.to(device))

    def traces(self) -> Sequence[Any]:
        return [*self.examples.traces(), *self.source.examples.traces()]


@dataclass(frozen=True)
class Putting:
    """Puts the labelled examples beside others."""

    source: ClientData

    def __call__(self, examples: AnyExamples) -> AnyExamples:
        return Beside(examples.stripped(), self.source)


@dataclass(frozen=True, repr=False)
class WithSource(DerivedSet):
    """Clients without labels who also have all labelled images of a source; tested as the clients'
    own set is."""

    source: DataSpec

    def open(self, seed: int) -> Federation:
        """The federation with the source beside every client's images."""
        fed, source = self.on.open(seed), self.source.open(seed).pooled()
        if fed.classes != source.classes:
            raise SettingError(
                f"with_source: {self.on} has {fed.classes} classes, {self.source} {source.classes}. Take sets of the "
                "same classes."
            )
        return changed(
            fed, Putting(source.data(0)), "with_source: a source can be put beside clients"
        )


with_source = register("data set", "with_source")(WithSource)
