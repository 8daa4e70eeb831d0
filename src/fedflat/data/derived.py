"""What is derived from other data: a data set, a federation with changed examples, and examples
that delegate to others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from fedflat.data.domains import Domains
from fedflat.data.examples import AnyExamples, Batch, Examples, Tensors
from fedflat.data.federation import DataSpec, Federation, OnDemand, PartitionedFederation
from fedflat.data.styles import restyled
from fedflat.errors import SettingError
from fedflat.registry.specs import name_of

Change = Callable[[AnyExamples], AnyExamples]
"""Replaces examples by as many others in the same order; must be picklable."""


@dataclass(frozen=True, repr=False)
class DerivedSet(DataSpec):
    """A set derived from ``on``, with the same task and class names."""

    origin = "is derived from another set"

    on: DataSpec

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.type == "DataSpec" and not isinstance(value, DataSpec):
                owner = name_of(type(self))
                raise SettingError(
                    f"{owner}: {each.name} must be a data set, such as digits(), found {value!r}."
                )

    @property
    def usual_task(self) -> str:  # type: ignore[override]
        return self.on.usual_task

    @property
    def usual_model(self) -> str | None:  # type: ignore[override]
        return self.on.usual_model

    def class_names(self) -> tuple[str, ...]:
        return self.on.class_names()

    def client_names(self) -> tuple[str, ...]:
        return self.on.client_names()

    def column_names(self) -> tuple[str, ...]:
        return self.on.column_names()


@dataclass(frozen=True)
class ChangedClient:
    """Makes a client's examples, then changes them."""

    make: Callable[[int], AnyExamples]
    change: Change

    def __call__(self, client: int) -> AnyExamples:
        return self.change(self.make(client))


class ChangedOnDemand(OnDemand):
    """Clients that are made on demand and then changed."""

    def pooled(self) -> PartitionedFederation:
        assert isinstance(self.make, ChangedClient)
        pooled = OnDemand(**{**_fields(self), "make": self.make.make}).pooled()
        return replace(pooled, train=self.make.change(pooled.train))


def changed(fed: Federation, change: Change, what: str) -> Federation:
    """The same federation with changed client examples and no client test sets; test sets stay."""
    if isinstance(fed, PartitionedFederation):
        return replace(fed, train=change(fed.train), held_out=None)
    if isinstance(fed, OnDemand):
        return ChangedOnDemand(**{**_fields(fed), "make": ChangedClient(fed.make, change)})
    raise SettingError(
        f"{what} whose data are partitioned or made when needed, found {type(fed).__name__}."
    )


def _fields(fed: OnDemand) -> dict[str, Any]:
    return {field.name: getattr(fed, field.name) for field in fields(fed)}


@dataclass(frozen=True)
class DelegatingExamples(AnyExamples):
    """Delegates to ``examples`` what a subclass does not override."""

    examples: AnyExamples

    @property
    def classes(self) -> int:  # type: ignore[override]
        return self.examples.classes

    @property
    def targets(self) -> Tensors:
        return self.examples.targets

    @property
    def domains(self) -> Domains | None:  # type: ignore[override]
        return self.examples.domains

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.examples.shape

    @property
    def augments(self) -> bool:
        return self.examples.augments

    def raw(self, index: Tensor) -> Examples:
        return self.examples.raw(index)

    def like(self, inputs: Tensor) -> Examples:
        return self.examples.like(inputs)

    def expect(self, index: Tensor) -> None:
        self.examples.expect(index)

    def plain(self) -> Self:
        return replace(self, examples=self.examples.plain())

    def part(self, where: slice) -> Self:
        return replace(self, examples=self.examples.part(where))

    def to(self, device: str) -> Self:
        return replace(self, examples=self.examples.to(device))


@dataclass(frozen=True)
class Restyled(DelegatingExamples):
    """Images that get a random style whenever they are trained on, before augmentation."""

    styles: Tensor
    """``(styles, channels, rows, columns)``: amplitudes of low frequencies."""
    size: tuple[int, int] | None = None
    """Height and width of the images that the styles come from; None: those of these images."""

    @property
    def augments(self) -> bool:
        return True

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        if rng is None:
            return self.examples.batch(index, dtype)
        raw = self.examples.raw(index)
        styles = self.styles[torch.randint(len(self.styles), (len(index),), generator=rng)]
        changed = replace(raw, inputs=in_styles(raw.inputs, styles, self.size))
        return changed.batch(torch.arange(len(index), device=index.device), dtype, rng)

    def plain(self) -> AnyExamples:  # type: ignore[override]
        return self.examples.plain()

    def retargeted(self, targets: Tensor) -> Restyled:
        return replace(self, examples=self.examples.retargeted(targets))

    def traces(self) -> Sequence[Any]:
        return [*self.examples.traces(), self.styles]


def in_styles(images: Tensor, styles: Tensor, size: tuple[int, int] | None) -> Tensor:
    """Images (bytes, or 0 to 1), each in one of the ``styles``, which were computed at ``size``."""
    if images.dtype == torch.uint8:
        return restyled(images, styles, size)
    return restyled(images * 255, styles, size).to(images.dtype) / 255


@dataclass(frozen=True, repr=False)
class InStyles(DerivedSet):
    """A data set at one client whose images get the styles of others; created during a run."""

    styles: Tensor = field(compare=False)
    size: tuple[int, int] | None = None

    def open(self, seed: int) -> PartitionedFederation:
        """All examples at one client, in styles."""
        fed = self.on.open(seed).pooled()
        assert isinstance(fed, PartitionedFederation)
        return replace(fed, train=Restyled(fed.train, self.styles, self.size))
