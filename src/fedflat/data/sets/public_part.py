"""A public set for the server, taken from the test set: some test examples of each class.

    --on "without_public_part(cifar10(lda(0)))" --server-data "public_part(cifar10())"

``public_part`` has these examples, ``without_public_part`` the same data set without them in its
test set. The selection depends on the seed and the test set only, not on the partition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedflat.core.seeds import torch_generator
from fedflat.data.derived import DerivedSet
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation, PartitionedFederation
from fedflat.errors import SettingError, number
from fedflat.registry.specs import name_of, register


@dataclass(frozen=True, repr=False)
class Parted(DerivedSet):
    """A data set whose test set is split into a public part and the rest."""

    per_class: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        number(name_of(type(self)), "per_class", self.per_class, low=1, whole=True)

    def parted(self, test: ClientData, seed: int) -> tuple[Tensor, Tensor]:
        """The positions in the test set that are public, and the others, each sorted."""
        if not test.examples.has_classes:
            raise SettingError(
                f"{self}: it takes examples of each class, and these examples do not have one "
                "class each. Use data of classes."
            )
        labels = test.labels.cpu()
        order = torch.randperm(len(labels), generator=torch_generator(seed, "public"))
        chosen = torch.zeros(len(labels), dtype=torch.bool)
        for label in labels.unique():
            chosen[order[labels[order] == label][: self.per_class]] = True
        if bool(chosen.all()):
            raise SettingError(
                f"{self}: the test set has {len(labels)} examples, and with {self.per_class} of "
                "each class nothing of it is left to test on. Lower per_class."
            )
        return chosen.nonzero()[:, 0], (~chosen).nonzero()[:, 0]


@register("data set", "public_part")
@dataclass(frozen=True, repr=False)
class PublicPart(Parted):
    """Some test examples of each class of a data set as training data for a server.

    per_class
        Number of test examples of each class.
    """

    def open(self, seed: int) -> Federation:
        """One client with these examples; the rest is the test set."""
        test = self.on.open(seed).test
        public, rest = (_some(test, places) for places in self.parted(test, seed))
        return PartitionedFederation(test.examples, rest, [public.index])


@register("data set", "without_public_part")
@dataclass(frozen=True, repr=False)
class WithoutPublicPart(Parted):
    """A data set without the test examples that ``public_part`` has.

    per_class
        Number of test examples of each class that are left out.
    """

    def open(self, seed: int) -> Federation:
        """The same clients, with a smaller test set."""
        fed: Any = self.on.open(seed)
        smaller: Federation = replace(fed, test=_some(fed.test, self.parted(fed.test, seed)[1]))
        return smaller


def _some(data: ClientData, places: Tensor) -> ClientData:
    return replace(data, index=data.index[places.to(data.index.device)])


public_part = PublicPart
without_public_part = WithoutPublicPart
