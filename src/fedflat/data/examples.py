"""Examples as tensors in memory, and the batches cut from them.

Images stay uint8 until a batch is cut; crops, flips and normalisation are done a whole batch at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Protocol

import torch
from torch import Tensor


class Augment(Protocol):
    """Changes a batch of raw examples at random; a picklable value."""

    def __call__(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """The changed batch, of the same shape and type."""
        ...


@dataclass(frozen=True)
class Batch:
    """One mini-batch. With a second set of labels the loss is ``lam * loss(y) + (1 - lam) * loss(y2)``."""

    x: Tensor
    y: Tensor
    y2: Tensor | None = None
    lam: float = 1.0

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Examples:
    """A whole set: raw inputs, labels, and how a batch of inputs is made ready for a model."""

    x: Tensor
    y: Tensor
    classes: int
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    augment: Augment | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.x.shape[1:])

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        """The examples at ``index``, ready for a model; augmented if there is a generator to do it with."""
        x = self.x.index_select(0, index)
        if rng is not None and self.augment is not None:
            x = self.augment(x, rng)
        return Batch(self._ready(x, dtype), self.y.index_select(0, index))

    def _ready(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        scale = 255.0 if x.dtype == torch.uint8 else 1.0
        x = x.to(dtype)
        if self.mean:
            shape = (1, -1) + (1,) * (x.dim() - 2)
            mean, std = _constants(self.mean, dtype, x.device), _constants(self.std, dtype, x.device)
            return x.sub_(mean.view(shape) * scale).div_(std.view(shape) * scale)
        return x.div_(scale) if scale != 1.0 else x

    def to(self, device: str) -> Examples:
        """The same set on another device."""
        return replace(self, x=self.x.to(device), y=self.y.to(device))


@cache
def _constants(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Numbers that are sent to a device once."""
    return torch.tensor(values, dtype=dtype, device=device)


@dataclass(frozen=True)
class ClientData:
    """What one client holds: some of the examples, by index."""

    examples: Examples
    index: Tensor
    held_out: Tensor | None = None
    """What it keeps for testing, if the data were split inside the clients."""

    def __len__(self) -> int:
        return len(self.index)

    @property
    def own_test(self) -> ClientData | None:
        """What it keeps for testing, as data."""
        return None if self.held_out is None else ClientData(self.examples, self.held_out)

    @property
    def labels(self) -> Tensor:
        """The labels it holds."""
        return self.examples.y.index_select(0, self.index)

    def to(self, device: str) -> ClientData:
        """The same examples on another device."""
        held_out = None if self.held_out is None else self.held_out.to(device)
        return ClientData(self.examples.to(device), self.index.to(device), held_out)

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        """The batch of this client's ``index``-th examples."""
        return self.examples.batch(self.index.index_select(0, index.to(self.index.device)), dtype, rng)
