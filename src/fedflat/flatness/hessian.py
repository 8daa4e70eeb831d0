"""The Hessian of the mean loss, by its products with vectors: ``H v = grad(grad L . v)``.

Products are exact double-backward ones. Forward-mode derivatives would be a little cheaper, but
torch has none for some layers, and for LayerNorm a wrong one in the second order.

The model and the set stay the same from product to product, so the graph of the gradient of the
first batches is held, up to ``hold`` bytes, and built once; the graphs of the others are built and
dropped in each product, once for a whole block of vectors.
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
from fedflat.data.batch import Batch
from fedflat.data.examples import ClientData
from fedflat.errors import SettingError, nearest, number
from fedflat.flatness.objective import BATCH, Objective, Tick, flattened, silent
from fedflat.kernels.convolution import convolving
from fedflat.settings.groups import DIRECT
from fedflat.tasks.average import Average

HOLD = 2**30


class Operator(Protocol):
    """A symmetric linear map: a matrix, or anything else that knows its shape and ``@``."""

    @property
    def shape(self) -> Sequence[int]:
        """Rows and columns."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """The type of the vectors it takes and gives."""
        ...

    @property
    def device(self) -> torch.device:
        """Where they live."""
        ...

    def __matmul__(self, v: Tensor, /) -> Tensor:
        """Its product with a vector, or with each column of a block."""
        ...


@dataclass(frozen=True)
class Measured:
    """What products cost, by those of one batch."""

    graph: int
    """Bytes of the graph of one batch."""
    held: int
    """Bytes of all graphs that will be held."""
    seconds: float
    """For a product over the whole set."""


class Hessian:
    """The Hessian of the mean loss of ``model`` over ``data``: ``hessian @ v`` for a vector or a
    block of columns."""

    def __init__(
        self,
        learner: Learner,
        model: Model,
        data: ClientData,
        *,
        batch_size: int = BATCH,
        hold: int = HOLD,
        tick: Tick = silent,
    ) -> None:
        number("hessian", "hold", hold, low=0, whole=True)
        self.objective = Objective(learner, model.buffers, data, batch_size=batch_size)
        self.hold, self.tick = hold, tick
        self._leaves = self.objective.leaves(model.params)
        self._held: dict[int, tuple[Sequence[Tensor], float]] = {}
        self._bytes, self._largest = 0, 1

    @property
    def layout(self) -> Layout:
        """Which parameter sits where."""
        return self.objective.layout

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.layout.dim, self.layout.dim

    @property
    def dtype(self) -> torch.dtype:
        """The model's type."""
        return self.objective.learner.dtype

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return torch.device(self.objective.learner.device)

    @property
    def params(self) -> Tensor:
        """The point at which it is taken."""
        return flattened(self._leaves).detach()

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
        """``H v``, exact up to rounding."""
        return self._products(v, range(len(self._leaves)))

    def measured(self) -> Measured:
        """Memory and time of products, by the first batch, which is worked on twice: the first time
        is slower."""
        batch, share = next(self.objective.batches())
        begun = time.perf_counter()
        slopes, _ = self._slopes(0, batch)
        built, times = time.perf_counter() - begun, []
        for _ in range(2):
            begun = time.perf_counter()
            _slope_of(list(slopes), [leaf.detach() for leaf in self._leaves], self._leaves)
            times.append(time.perf_counter() - begun)
        batches = -(-len(self.objective.data) // self.objective.batch_size)
        held = min(batches, self.hold // self._largest)
        return Measured(
            self._largest, held * self._largest, min(times) / share + (batches - held) * built
        )

    def release(self) -> None:
        """Drop the graphs that are held; later products build them again."""
        self._held.clear()
        self._bytes = 0

    def layers(self) -> dict[str, ExampleBlock]:
        """The blocks of the diagonal: each layer with its own parameters, by the name of its
        module."""
        places: dict[str, list[int]] = {}
        for i, name in enumerate(self.layout.names):
            places.setdefault(name.rpartition(".")[0] or name, []).append(i)
        return {name: ExampleBlock(self, indices) for name, indices in places.items()}

    def layer(self, name: str) -> ExampleBlock:
        """One of them."""
        blocks = self.layers()
        if name not in blocks:
            raise SettingError(
                f"the model has no layer {name!r} with parameters.{nearest(name, blocks)} It has {', '.join(blocks)}."
            )
        return blocks[name]

    def _products(self, v: Tensor, chosen: Sequence[int]) -> Tensor:
        leaves = [self._leaves[i] for i in chosen]
        sizes = [leaf.numel() for leaf in leaves]
        if v.dim() not in (1, 2) or len(v) != sum(sizes):
            raise SettingError(
                f"a product with a matrix of {sum(sizes)} columns takes a vector of as many numbers, or several as "
                f"columns; found shape {tuple(v.shape)}."
            )
        columns = v.reshape(len(v), -1).to(dtype=self.dtype, device=self.device).T.contiguous()
        vectors = [
            [part.view_as(p) for part, p in zip(c.split(sizes), leaves, strict=True)]
            for c in columns
        ]
        total, mean = torch.zeros_like(columns), Average(len(self.objective.data))
        for i, (batch, share) in enumerate(self.objective.batches()):
            slopes, count = self._slopes(i, batch)
            weight = mean.weight(len(batch), count)
            for row, vector in zip(total, vectors, strict=True):
                row.add_(_slope_of([slopes[j] for j in chosen], vector, leaves), alpha=weight)
                self.tick(share)
            del slopes  # before the next graph is built
        return total.div_(mean.scale).T.reshape(v.shape)

    def _slopes(self, i: int, batch: Batch) -> tuple[Sequence[Tensor], float]:
        """The gradient of batch ``i`` with its graph, held if there is room for it, and what the
        batch counts."""
        if i in self._held:
            return self._held[i]
        convolutions = convolving(never=self.objective.learner.convolutions == DIRECT, twice=True)
        with sdpa_kernel(SDPBackend.MATH), convolutions, _weighed() as storages:
            loss, count = self.objective.batch_loss(self._leaves, batch)
            slopes = torch.autograd.grad(
                loss, self._leaves, create_graph=True, materialize_grads=True
            )
        for slope in slopes:
            storages[slope.untyped_storage().data_ptr()] = slope.untyped_storage().nbytes()
        for leaf in self._leaves:  # which are there anyhow
            storages.pop(leaf.untyped_storage().data_ptr(), None)
        weight = sum(storages.values())
        self._largest = max(self._largest, weight)
        if self._bytes + weight <= self.hold:
            self._held[i] = slopes, count
            self._bytes += weight
        return slopes, count


class ExampleBlock:
    """A block of the Hessian's diagonal: curvature when all but some parameters stand still."""

    def __init__(self, whole: Hessian, chosen: Sequence[int]) -> None:
        self.whole, self.chosen = whole, chosen
        self.dtype, self.device = whole.dtype, whole.device
        dim = sum(whole.layout.sizes[i] for i in chosen)
        self.shape = dim, dim

    def __matmul__(self, v: Tensor) -> Tensor:
        """Its product with a vector, or with each column of a block."""
        return self.whole._products(v, self.chosen)


def _slope_of(slopes: list[Tensor], vector: list[Tensor], leaves: list[Tensor]) -> Tensor:
    """The gradient of ``slopes . vector``; slopes that hang on no parameter have none."""
    live = [(slope, v) for slope, v in zip(slopes, vector, strict=True) if slope.requires_grad]
    if not live:
        return torch.zeros_like(flattened(vector))
    outputs, cotangents = zip(*live, strict=True)
    return flattened(
        torch.autograd.grad(outputs, leaves, cotangents, retain_graph=True, materialize_grads=True)
    )


@contextmanager
def _weighed() -> Iterator[dict[int, int]]:
    """Note how many bytes a graph keeps, by the address of each storage."""
    storages: dict[int, int] = {}

    def note(t: Tensor) -> Tensor:
        storage = t.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return t.detach()

    with saved_tensors_hooks(note, lambda t: t):
        yield storages
