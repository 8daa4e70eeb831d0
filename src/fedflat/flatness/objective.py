"""The mean loss over a set of examples, as a function of the parameters.

The module is in evaluation mode; there is no weight decay and no augmentation. The module is a
private copy, so a learner that is training is not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.func import functional_call

from fedflat.client.learner import Learner
from fedflat.core.flat import FlatModule
from fedflat.data.examples import Batch, ClientData, arguments
from fedflat.errors import SettingError, number
from fedflat.tasks.task import Average

BATCH = 128

OnShare = Callable[[float], None]
"""Called after each batch with its share of a pass over the whole set."""


def ignore_progress(share: float) -> None:
    """Ignore progress."""


class Objective:
    """The mean loss over `data` as a function of the parameters.

    Each batch is weighted by the number of things its loss is the mean of. `buffers` are the
    running statistics of the model.
    """

    def __init__(
        self,
        learner: Learner,
        buffers: Tensor,
        data: ClientData,
        *,
        batch_size: int = BATCH,
        on_share: OnShare = ignore_progress,
    ) -> None:
        number("flatness", "batch_size", batch_size, low=1, whole=True)
        if len(data) == 0:
            raise SettingError(
                "the mean loss of an empty set is not defined: found 0 examples. "
                "Give at least one example."
            )
        flat = FlatModule(learner.module(), dtype=learner.dtype, device=learner.device)
        flat.buffers = buffers
        self.learner = learner
        self.data = data
        self.batch_size = batch_size
        self.on_share = on_share
        self.layout, self.module = flat.layout, flat.module.eval()

    def batches(self) -> Iterator[tuple[Batch, float]]:
        """Iterate over batches, each with its share of the whole set."""
        order = torch.arange(len(self.data)).split(self.batch_size)
        for batch in self.data.batches(order, self.learner.dtype):
            yield batch, len(batch) / len(self.data)

    def leaves(self, w: Tensor) -> list[Tensor]:
        """Return the parameters at `w` as leaves of a new graph."""
        w = w.detach().to(dtype=self.learner.dtype, device=self.learner.device)
        parts = w.split(list(self.layout.sizes))
        return [
            part.view(shape).requires_grad_()
            for part, shape in zip(parts, self.layout.shapes, strict=True)
        ]

    def batch_loss(self, leaves: Sequence[Tensor], batch: Batch) -> tuple[Tensor, float]:
        """Return the mean loss of one batch, and the number of things it is the mean of."""
        params = dict(zip(self.layout.names, leaves, strict=True))
        loss, count = self.learner.mean(
            functional_call(self.module, params, arguments(batch.inputs)), batch
        )
        return loss, float(count)

    def loss(self, w: Tensor) -> float:
        """Return the mean loss at `w`."""
        total, leaves, mean = 0.0, self.leaves(w), Average(len(self.data))
        with torch.no_grad():
            for batch, share in self.batches():
                loss, count = self.batch_loss(leaves, batch)
                total += mean.weight(len(batch), count) * float(loss)
                self.on_share(share)
        return total / mean.scale

    def gradient(self, w: Tensor) -> tuple[float, Tensor]:
        """Return the mean loss at `w` and its gradient."""
        total, leaves, mean = 0.0, self.leaves(w), Average(len(self.data))
        gradient = torch.zeros(
            self.layout.dim, dtype=self.learner.dtype, device=self.learner.device
        )
        for batch, share in self.batches():
            loss, count = self.batch_loss(leaves, batch)
            parts = torch.autograd.grad(loss, leaves, materialize_grads=True)
            weight = mean.weight(len(batch), count)
            gradient.add_(flatten(parts), alpha=weight)
            total += weight * float(loss.detach())
            self.on_share(share)
        return total / mean.scale, gradient.div_(mean.scale)


def flatten(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors into one vector."""
    return torch.cat([part.reshape(-1) for part in parts])
