"""Data sets with some examples of another: other test sets, a public part, sources, no labels.

    tested_on(street(style="game"), street())       clients of the first, tests of the second
    tested_on(street(targets="place"), berlin(), add=True)      the tests of both
    without_public_part(cifar10(lda(0)))            its test set without the public part, and
    public_part(cifar10())                          that part, for ``--server-data``
    with_source(street(), street(style="game"))     each batch also has as many random labelled
                                                    images of the second, which come first
    unlabelled(street())                            the clients have images and no masks

A public part has some test examples of each class. The selection depends on the seed and the test
set only, not on the partition.

Targets are removed when the data are opened: masks on disk are not read, and targets in memory are
dropped. Reading a target is an error. This also applies to the clients of methods that learn
without targets (`Piece.unsupervised`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from fedflat.core.seeds import torch_generator
from fedflat.data.derived import DelegatingExamples, DerivedSet, changed
from fedflat.data.examples import AnyExamples, Batch, ClientData
from fedflat.data.federation import DataSpec, Federation, OnDemand, PartitionedFederation
from fedflat.errors import SettingError, flag, number
from fedflat.registry.specs import name_of, register


@dataclass(frozen=True, repr=False)
class TestedOn(DerivedSet):
    """The clients of one data set and the test sets of another, of the same classes.

    tests
        The data set whose test sets are used.
    """

    tests: DataSpec
    add: bool = False
    """True: the clients' own test sets stay, and those of the other are added under its name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        flag("tested_on", "add", self.add)

    def open(self, seed: int) -> Federation:
        """The federation with the other's test sets."""
        fed, other = self.on.open(seed), self.tests.open(seed)
        if (fed.classes, fed.shape[0]) != (other.classes, other.shape[0]):
            raise SettingError(
                f"tested_on: {self.on} has {fed.classes} classes and inputs of shape {fed.shape}, "
                f"{self.tests} has {other.classes} and {other.shape}. Use sets of the same "
                "classes and kind."
            )
        if not isinstance(fed, PartitionedFederation | OnDemand):
            raise SettingError(
                f"tested_on: the clients of {self.on} cannot be tested elsewhere. Use another "
                "data set."
            )
        if self.add:
            name = name_of(type(self.tests))
            others = {
                name if one == "test" else f"{name}_{one}": t for one, t in other.tests.items()
            }
            return replace(fed, more={**fed.more, **others})
        held_out = {"held_out": None} if isinstance(fed, PartitionedFederation) else {}
        return replace(fed, test=other.test, more=other.more, **held_out)  # type: ignore[arg-type]


tested_on = register("data set", "tested_on")(TestedOn)


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


WHY = (
    "The clients hold no labels here, and this needs some. Use a method that learns "
    "without, such as ladd() or self_training(), or data with labels."
)


class Absent:
    """Placeholder for targets; every access is an error."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)  # pickle and copy look for optional methods
        raise SettingError(WHY)

    def __getitem__(self, place: object) -> NoReturn:
        raise SettingError(WHY)

    def __len__(self) -> NoReturn:
        raise SettingError(WHY)


class Targetless(DelegatingExamples):
    """Examples that refuse access to their targets."""

    @property
    def targets(self) -> NoReturn:
        """Always an error."""
        raise SettingError(WHY)

    @property
    def has_classes(self) -> bool:
        return False

    @property
    def labels(self) -> NoReturn:
        raise SettingError(WHY)

    def retargeted(self, targets: Tensor) -> NoReturn:
        raise SettingError(WHY)


@dataclass(frozen=True)
class Unlabelled(Targetless):
    """Examples without targets."""

    unlabelled = True

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        """See `AnyExamples.batch`; the targets are absent."""
        return Batch(self.examples.batch(index, dtype, rng).inputs, Absent())

    def with_blank_targets(self) -> Unlabelled:
        return self

    def traces(self) -> Sequence[Any]:
        return [*self.examples.traces(), "unlabelled"]


def without_targets(examples: AnyExamples) -> AnyExamples:
    return Unlabelled(examples.with_blank_targets())


def without_labels(fed: Federation) -> Federation:
    """The same federation with clients that have no targets and no test sets; test sets stay."""
    return changed(fed, without_targets, "unlabelled: labels can be removed from clients")


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
        labelled = self.source.batch(places, dtype, rng)
        unlabelled = self.examples.batch(index, dtype, rng)
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


@dataclass(frozen=True, repr=False)
class WithoutLabels(DerivedSet):
    """A data set whose clients hold no labels; only its test sets have them."""

    def open(self, seed: int) -> Federation:
        return without_labels(self.on.open(seed))


unlabelled = register("data set", "unlabelled")(WithoutLabels)
