"""A public set for the server, taken out of the test set: so many test examples of each class.

    --on "without_public_part(cifar10(lda(0)))" --server-data "public_part(cifar10())"

``public_part`` has these examples, ``without_public_part`` the same data set without them in its
test set. Which ones they are hangs on the seed and on the test set alone, not on how the training
examples are dealt out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedflat.core.seeds import torch_generator
from fedflat.data.derived_set import DerivedSet
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation, PartitionedFederation
from fedflat.errors import SettingError, number
from fedflat.registry.specs import name_of, register


@dataclass(frozen=True, repr=False)
class Parted(DerivedSet):
    """A data set, parted into what is public and the rest."""

    per_class: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        number(name_of(type(self)), "per_class", self.per_class, low=1, whole=True)

    def parted(self, test: ClientData, seed: int) -> tuple[Tensor, Tensor]:
        """The places in the test set that are public, and the others, each in their order."""
        if not test.examples.labelled:
            raise SettingError(
                f"{self}: so many examples of each class are taken, and these have no class each."
            )
        labels = test.labels.cpu()
        order = torch.randperm(len(labels), generator=torch_generator(seed, "public"))
        chosen = torch.zeros(len(labels), dtype=torch.bool)
        for label in labels.unique():
            chosen[order[labels[order] == label][: self.per_class]] = True
        if bool(chosen.all()):
            raise SettingError(
                f"{self}: the test set has {len(labels)} examples, and with {self.per_class} of each class nothing of "
                "it is left to test on. Lower per_class."
            )
        return chosen.nonzero()[:, 0], (~chosen).nonzero()[:, 0]


@register("data set", "public_part")
@dataclass(frozen=True, repr=False)
class PublicPart(Parted):
    """So many test examples of each class of a data set, to train on: data for a server."""

    def open(self, seed: int) -> Federation:
        """One client that has them; the rest is the test set."""
        test = self.on.open(seed).test
        taken, left = (_some(test, places) for places in self.parted(test, seed))
        return PartitionedFederation(test.examples, left, [taken.index])


@register("data set", "without_public_part")
@dataclass(frozen=True, repr=False)
class WithoutPublicPart(Parted):
    """A data set without those of its test examples that ``public_part`` takes out of it."""

    def open(self, seed: int) -> Federation:
        """The same clients, with a smaller test set."""
        fed: Any = self.on.open(seed)
        smaller: Federation = replace(fed, test=_some(fed.test, self.parted(fed.test, seed)[1]))
        return smaller


def _some(data: ClientData, places: Tensor) -> ClientData:
    return replace(data, index=data.index[places.to(data.index.device)])


public_part = PublicPart
without_public_part = WithoutPublicPart
