"""One mini-batch: what goes into a model and what should come out, of any type and number.

Inputs are a tensor, or a tuple of them that a module takes as so many arguments. Whole numbers stay
whole numbers. Targets are a tensor or a tuple; a piece that blends examples wraps them as `Mixed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

Tensors: TypeAlias = Any
"""A tensor or a tuple of tensors. Who says which is the data set; type checkers cannot know."""


@dataclass(frozen=True)
class Mixed:
    """Targets of blended examples: the loss is ``lam * loss(first) + (1 - lam) * loss(second)``."""

    first: Tensors
    second: Tensors
    lam: float | Tensor


@dataclass(frozen=True)
class Batch:
    """Inputs and targets of some examples; in a stack of clients, with a row for each of them."""

    inputs: Tensors
    targets: Tensors
    """Or `Mixed`."""

    def __len__(self) -> int:
        return self.first.shape[0]

    @property
    def first(self) -> Tensor:
        """The inputs; the first of several."""
        return leading(self.inputs)

    @property
    def labels(self) -> Tensor:
        """The targets; the first of several, and before they were mixed."""
        return leading(self.targets)


def arguments(inputs: Tensors) -> tuple[Tensor, ...]:
    """What a module is called with."""
    return tuple(inputs) if isinstance(inputs, tuple) else (inputs,)


def leading(value: Tensors) -> Tensor:
    """The first tensor of some."""
    if type(value) is Tensor:  # by far the most
        return value
    return arguments(value.first if isinstance(value, Mixed) else value)[0]


def each(make: Callable[..., Any], *values: Any) -> Any:
    """The same structure with what ``make`` makes of the tensors that stand at the same place in
    all ``values``.

    >>> each(lambda a, b: a + b, (1, 2), (10, 20))
    (11, 22)
    """
    first = values[0]
    if type(first) is Tensor:  # by far the most
        return make(*values)
    if isinstance(first, Batch):
        inputs, targets = (
            each(make, *(getattr(v, name) for v in values)) for name in ("inputs", "targets")
        )
        return Batch(inputs, targets)
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
    """All tensors of a batch, one after the other."""
    found: list[Any] = []
    each(found.append, batch)
    return found


def shape_of(batch: Batch) -> Batch:
    """How a batch is made up, without its tensors: for `regrown`, and to tell batches apart."""
    empty: Batch = each(lambda leaf: None, batch)
    return empty


def regrown(empty: Batch, parts: Sequence[Any]) -> Batch:
    """The batch that is made up like ``empty``, of the tensors that `leaves` gives."""
    left = iter(parts)
    batch: Batch = each(lambda leaf: next(left), empty)
    return batch


def rows(batch: Batch) -> Iterator[Batch]:
    """The batch of each client in a stack of them."""
    for place in range(len(batch)):
        yield each(lambda leaf: leaf[place], batch)  # noqa: B023


def stacked(batches: Sequence[Batch]) -> Batch:
    """Batches of several clients, all of one shape, as rows of one."""
    like = leading(batches[0].inputs)

    def join(*parts: Any) -> Tensor:
        if isinstance(parts[0], Tensor):
            return torch.stack(parts)
        return torch.tensor(parts, dtype=like.dtype, device=like.device)

    batch: Batch = each(join, *batches)
    return batch
