"""Mini-batches: inputs and targets of any type and number.

Inputs are a tensor, or a tuple of tensors that a module takes as separate arguments. Integers stay
integers. Targets are a tensor or a tuple; pieces that blend examples wrap them as `Mixed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

Tensors: TypeAlias = Any
"""A tensor or a tuple of tensors, depending on the data set."""


@dataclass(frozen=True)
class Mixed:
    """Targets of blended examples: the loss is ``lam * loss(first) + (1 - lam) * loss(second)``."""

    first: Tensors
    second: Tensors
    lam: float | Tensor


@dataclass(frozen=True)
class Batch:
    """Inputs and targets of some examples; in a stack of clients, with one row per client.

    inputs
        A tensor or a tuple of tensors, with one row per example.
    """

    inputs: Tensors
    targets: Tensors
    """Tensors or `Mixed`."""

    def __len__(self) -> int:
        return self.first.shape[0]

    @property
    def first(self) -> Tensor:
        """The inputs; the first tensor of several."""
        return leading(self.inputs)

    @property
    def labels(self) -> Tensor:
        """The targets; the first tensor of several, without mixing."""
        return leading(self.targets)


def arguments(inputs: Tensors) -> tuple[Tensor, ...]:
    """The arguments for calling a module."""
    return tuple(inputs) if isinstance(inputs, tuple) else (inputs,)


def leading(value: Tensors) -> Tensor:
    """The first tensor of a structure."""
    if type(value) is Tensor:  # the common case
        return value
    return arguments(value.first if isinstance(value, Mixed) else value)[0]


def each(make: Callable[..., Any], *values: Any) -> Any:
    """Apply ``make`` to the corresponding tensors of all ``values``; returns the same structure.

    >>> each(lambda a, b: a + b, (1, 2), (10, 20))
    (11, 22)
    """
    first = values[0]
    if type(first) is Tensor:  # the common case
        return make(*values)
    if isinstance(first, Batch):
        inputs, targets = [v.inputs for v in values], [v.targets for v in values]
        return Batch(each(make, *inputs), each(make, *targets))
    if isinstance(first, Mixed):
        return Mixed(
            *(
                each(make, *(getattr(v, name) for v in values))
                for name in ("first", "second", "lam")
            )
        )
    if isinstance(first, tuple):
        return tuple(each(make, *parts) for parts in zip(*values, strict=True))
    return make(*values)


def leaves(batch: Batch) -> list[Any]:
    """All tensors of a batch as a list."""
    tensors: list[Any] = []
    each(tensors.append, batch)
    return tensors


def shape_of(batch: Batch) -> Batch:
    """The structure of a batch without its tensors: for `regrown`, and to compare batches."""
    empty: Batch = each(lambda leaf: None, batch)
    return empty


def regrown(empty: Batch, parts: Sequence[Any]) -> Batch:
    """The batch of structure ``empty`` with the tensors from `leaves`."""
    left = iter(parts)
    batch: Batch = each(lambda leaf: next(left), empty)
    return batch


def rows(batch: Batch) -> Iterator[Batch]:
    """The batches of the single clients of a stack."""
    for place in range(len(batch)):
        yield each(lambda leaf: leaf[place], batch)  # noqa: B023


def stacked(batches: Sequence[Batch]) -> Batch:
    """Batches of several clients, all of one shape, as rows of one batch."""
    like = leading(batches[0].inputs)

    def join(*parts: Any) -> Tensor:
        if isinstance(parts[0], Tensor):
            return torch.stack(parts)
        return torch.tensor(parts, dtype=like.dtype, device=like.device)

    batch: Batch = each(join, *batches)
    return batch
