"""The mean loss over a set of examples, as a function of the parameters.

Evaluation mode, no weight decay, no augmentation. The module is a private copy, so that a learner
that is training meanwhile notices nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.func import functional_call

from fedflat.client.learner import Learner
from fedflat.core.flat import FlatModule
from fedflat.data.batch import Batch, arguments
from fedflat.data.examples import ClientData
from fedflat.errors import SettingError, number
from fedflat.tasks.average import Average

BATCH = 128

Tick = Callable[[float], None]
"""Told after each batch how much was done, in passes over the whole set."""


def silent(share: float) -> None:
    """Tell nobody."""


class Objective:
    """The mean loss over ``data``, each batch weighted by what it counts; its running statistics
    are ``buffers``."""

    def __init__(
        self,
        learner: Learner,
        buffers: Tensor,
        data: ClientData,
        *,
        batch_size: int = BATCH,
        tick: Tick = silent,
    ) -> None:
        number("flatness", "batch_size", batch_size, low=1, whole=True)
        if len(data) == 0:
            raise SettingError(
                "the loss of no example has no curvature: found an empty set. Give it some examples."
            )
        flat = FlatModule(learner.module(), dtype=learner.dtype, device=learner.device)
        flat.buffers = buffers
        self.learner, self.data, self.batch_size, self.tick = learner, data, batch_size, tick
        self.layout, self.module = flat.layout, flat.module.eval()

    def batches(self) -> Iterator[tuple[Batch, float]]:
        """The set in batches, each with its share of the whole."""
        order = torch.arange(len(self.data)).split(self.batch_size)
        for batch in self.data.batches(order, self.learner.dtype):
            yield batch, len(batch) / len(self.data)

    def leaves(self, w: Tensor) -> list[Tensor]:
        """The parameters at ``w`` as leaves that a graph can be built on."""
        w = w.detach().to(dtype=self.learner.dtype, device=self.learner.device)
        parts = w.split(list(self.layout.sizes))
        return [
            part.view(shape).requires_grad_()
            for part, shape in zip(parts, self.layout.shapes, strict=True)
        ]

    def batch_loss(self, leaves: Sequence[Tensor], batch: Batch) -> tuple[Tensor, float]:
        """The mean loss of one batch, and of how many things it is the mean."""
        named = dict(zip(self.layout.names, leaves, strict=True))
        loss, count = self.learner.mean(
            functional_call(self.module, named, arguments(batch.inputs)), batch
        )
        return loss, float(count)

    def loss(self, w: Tensor) -> float:
        """The mean loss at ``w``."""
        total, leaves, mean = 0.0, self.leaves(w), Average(len(self.data))
        with torch.no_grad():
            for batch, share in self.batches():
                loss, count = self.batch_loss(leaves, batch)
                total += mean.weight(len(batch), count) * float(loss)
                self.tick(share)
        return total / mean.scale

    def gradient(self, w: Tensor) -> tuple[float, Tensor]:
        """The mean loss at ``w`` and its gradient there."""
        total, leaves, mean = 0.0, self.leaves(w), Average(len(self.data))
        gradient = torch.zeros(
            self.layout.dim, dtype=self.learner.dtype, device=self.learner.device
        )
        for batch, share in self.batches():
            loss, count = self.batch_loss(leaves, batch)
            parts = torch.autograd.grad(loss, leaves, materialize_grads=True)
            weight = mean.weight(len(batch), count)
            gradient.add_(flattened(parts), alpha=weight)
            total += weight * float(loss.detach())
            self.tick(share)
        return total / mean.scale, gradient.div_(mean.scale)


def flattened(parts: Sequence[Tensor]) -> Tensor:
    """Tensors one after the other in one vector."""
    return torch.cat([part.reshape(-1) for part in parts])
