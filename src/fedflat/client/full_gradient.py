"""The gradient over many examples, in large batches: of one client or of a stack of clients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedflat.client.learner import Learner, Oracle, Terms
from fedflat.client.piece import BatchOracle
from fedflat.data.examples import ClientData
from fedflat.tasks.task import Average


def batched_gradient(oracle: Callable[[Tensor], BatchOracle], examples: int, w: Tensor) -> Tensor:
    """Return the gradient over ``examples`` examples in batches of 256.

    No batch has a single example.
    """
    total, mean = torch.zeros_like(w), Average(examples)
    *parts, last = torch.arange(examples).split(256)
    if parts and len(last) == 1:
        last = torch.cat([parts.pop(), last])
    for indices in (*parts, last):
        batch_oracle = oracle(indices)
        mean.add(total, batch_oracle(w), len(indices), batch_oracle.count)
    return mean.finish(total)


def full_gradient(learner: Learner, data: ClientData, w: Tensor, terms: Terms = ()) -> Tensor:
    """Return the gradient of the loss with ``terms`` over all of a client's examples."""
    learner.flat.train()
    return batched_gradient(
        lambda indices: Oracle(learner, data.batch(indices, learner.dtype), terms, still=True),
        len(data),
        w,
    )
