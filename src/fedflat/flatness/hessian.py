"""The Hessian of the mean loss, by its products with vectors: ``H v = grad(grad L . v)``.

Products are exact and use double backward. Forward-mode derivatives would be a little cheaper, but
torch has none for some layers, and a wrong second-order one for LayerNorm.

Model and examples are the same in all products. So the graphs of the gradients of the first batches
are stored, up to `hold` bytes. The graphs of the other batches are built and dropped in each
product, once for a whole block of vectors.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel

from fedflat.client.learner import Learner
from fedflat.core.flat import Layout, Model
from fedflat.data.examples import Batch, ClientData
from fedflat.errors import SettingError, nearest, number
from fedflat.flatness.objective import BATCH, Objective, OnShare, flatten, ignore_progress
from fedflat.kernels.convolution import convolving
from fedflat.settings.groups import DIRECT
from fedflat.tasks.task import Average

HOLD = 2**30


class Operator(Protocol):
    """A symmetric linear map: a matrix, or an object with a shape and `@`."""

    @property
    def shape(self) -> Sequence[int]:
        """Number of rows and of columns."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """Type of its vectors."""
        ...

    @property
    def device(self) -> torch.device: ...

    def __matmul__(self, v: Tensor, /) -> Tensor:
        """Return the product with a vector, or with each column of a matrix."""
        ...


@dataclass(frozen=True)
class ProductCost:
    """Cost of a product, extrapolated from one batch."""

    graph: int
    """Bytes of the graph of one batch."""
    held: int
    """Bytes of all graphs that will be stored."""
    seconds: float
    """Seconds for a product over the whole set."""


class Hessian:
    """The Hessian of the mean loss of `model` over `data`, for products `hessian @ v`.

    `v` is a vector or a matrix of columns. `hold` is the number of bytes for stored graphs.
    `on_share` is called after each batch.

    learner
        Module and loss.
    batch_size
        Number of examples per forward pass, at least 1. The result does not depend on it.
    """

    def __init__(
        self,
        learner: Learner,
        model: Model,
        data: ClientData,
        *,
        batch_size: int = BATCH,
        hold: int = HOLD,
        on_share: OnShare = ignore_progress,
    ) -> None:
        number("hessian", "hold", hold, low=0, whole=True)
        self.objective = Objective(learner, model.buffers, data, batch_size=batch_size)
        self.hold, self.on_share = hold, on_share
        self._leaves = self.objective.leaves(model.params)
        self._graphs: dict[int, tuple[Sequence[Tensor], float]] = {}
        self._bytes, self._largest = 0, 1

    @property
    def layout(self) -> Layout:
        """Names, shapes and positions of the parameters."""
        return self.objective.layout

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.layout.dim, self.layout.dim

    @property
    def dtype(self) -> torch.dtype:
        """Type of the model."""
        return self.objective.learner.dtype

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return torch.device(self.objective.learner.device)

    @property
    def params(self) -> Tensor:
        """The parameters at which the Hessian is taken."""
        return flatten(self._leaves).detach()

    @cached_property
    def _first_order(self) -> tuple[float, Tensor]:
        return self.objective.gradient(self.params)

    @property
    def loss(self) -> float:
        """The mean loss."""
        return self._first_order[0]

    @property
    def gradient(self) -> Tensor:
        """The gradient of the mean loss."""
        return self._first_order[1]

    def __matmul__(self, v: Tensor) -> Tensor:
        """Return ``H v``, exact up to rounding."""
        return self._products(v, range(len(self._leaves)))

    def measure_cost(self) -> ProductCost:
        """Measure memory and time of a product on the first batch.

        The product is computed twice, because the first time is slower.
        """
        batch, share = next(self.objective.batches())
        start = time.perf_counter()
        slopes, _ = self._batch_gradient(0, batch)
        built, times = time.perf_counter() - start, []
        for _ in range(2):
            start = time.perf_counter()
            _hessian_product(list(slopes), [leaf.detach() for leaf in self._leaves], self._leaves)
            times.append(time.perf_counter() - start)
        batches = -(-len(self.objective.data) // self.objective.batch_size)
        held = min(batches, self.hold // self._largest)
        return ProductCost(
            self._largest, held * self._largest, min(times) / share + (batches - held) * built
        )

    def release(self) -> None:
        """Drop the stored graphs. Later products build them again."""
        self._graphs.clear()
        self._bytes = 0

    def layers(self) -> dict[str, LayerBlock]:
        """Return the diagonal block of each layer, by the name of its module."""
        places: dict[str, list[int]] = {}
        for i, name in enumerate(self.layout.names):
            places.setdefault(name.rpartition(".")[0] or name, []).append(i)
        return {name: LayerBlock(self, indices) for name, indices in places.items()}

    def layer(self, name: str) -> LayerBlock:
        """Return the diagonal block of one layer."""
        blocks = self.layers()
        if name not in blocks:
            raise SettingError(
                f"the model has no layer {name!r} with parameters.{nearest(name, blocks)} "
                f"It has {', '.join(blocks)}."
            )
        return blocks[name]

    def _products(self, v: Tensor, chosen: Sequence[int]) -> Tensor:
        leaves = [self._leaves[i] for i in chosen]
        sizes = [leaf.numel() for leaf in leaves]
        if v.dim() not in (1, 2) or len(v) != sum(sizes):
            raise SettingError(
                f"a product with a matrix of {sum(sizes)} columns needs a vector of that length, "
                f"or several as columns; found shape {tuple(v.shape)}."
            )
        columns = v.reshape(len(v), -1).to(dtype=self.dtype, device=self.device).T.contiguous()
        vectors = [
            [part.view_as(p) for part, p in zip(c.split(sizes), leaves, strict=True)]
            for c in columns
        ]
        total, mean = torch.zeros_like(columns), Average(len(self.objective.data))
        for i, (batch, share) in enumerate(self.objective.batches()):
            gradients, count = self._batch_gradient(i, batch)
            weight = mean.weight(len(batch), count)
            for row, vector in zip(total, vectors, strict=True):
                row.add_(
                    _hessian_product([gradients[j] for j in chosen], vector, leaves), alpha=weight
                )
                self.on_share(share)
            del gradients  # before the next graph is built
        return total.div_(mean.scale).T.reshape(v.shape)

    def _batch_gradient(self, i: int, batch: Batch) -> tuple[Sequence[Tensor], float]:
        """Return the gradient of batch `i` with its graph, and the weight of the batch."""
        if i in self._graphs:
            return self._graphs[i]
        convolutions = convolving(never=self.objective.learner.convolutions == DIRECT, twice=True)
        with sdpa_kernel(SDPBackend.MATH), convolutions, _count_graph_bytes() as storages:
            loss, count = self.objective.batch_loss(self._leaves, batch)
            slopes = torch.autograd.grad(
                loss, self._leaves, create_graph=True, materialize_grads=True
            )
        for slope in slopes:
            storages[slope.untyped_storage().data_ptr()] = slope.untyped_storage().nbytes()
        for leaf in self._leaves:  # they are not part of the graph's cost
            storages.pop(leaf.untyped_storage().data_ptr(), None)
        weight = sum(storages.values())
        self._largest = max(self._largest, weight)
        if self._bytes + weight <= self.hold:
            self._graphs[i] = slopes, count
            self._bytes += weight
        return slopes, count


class LayerBlock:
    """A diagonal block of the Hessian: the curvature if only some parameters change."""

    def __init__(self, whole: Hessian, indices: Sequence[int]) -> None:
        self.whole, self.indices = whole, indices
        self.dtype, self.device = whole.dtype, whole.device
        dim = sum(whole.layout.sizes[i] for i in indices)
        self.shape = dim, dim

    def __matmul__(self, v: Tensor) -> Tensor:
        """Return the product with a vector, or with each column of a matrix."""
        return self.whole._products(v, self.indices)


def _hessian_product(slopes: list[Tensor], vector: list[Tensor], leaves: list[Tensor]) -> Tensor:
    """Return the gradient of ``slopes . vector``.

    Slopes that do not depend on parameters add nothing.
    """
    live = [(slope, v) for slope, v in zip(slopes, vector, strict=True) if slope.requires_grad]
    if not live:
        return torch.zeros_like(flatten(vector))
    outputs, cotangents = zip(*live, strict=True)
    return flatten(
        torch.autograd.grad(outputs, leaves, cotangents, retain_graph=True, materialize_grads=True)
    )


@contextmanager
def _count_graph_bytes() -> Iterator[dict[int, int]]:
    """Collect the bytes that a graph stores, by the address of each storage."""
    storages: dict[int, int] = {}

    def note(t: Tensor) -> Tensor:
        storage = t.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return t.detach()

    with saved_tensors_hooks(note, lambda t: t):
        yield storages
