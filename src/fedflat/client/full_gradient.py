"""The gradient over many examples, a large batch at a time: of one client, or of a stack of
them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedflat.client.learner import Learner, Oracle, Terms
from fedflat.client.piece import BatchOracle
from fedflat.data.examples import ClientData
from fedflat.tasks.average import Average


def batched_gradient(oracle: Callable[[Tensor], BatchOracle], examples: int, w: Tensor) -> Tensor:
    """The gradient over ``examples``, a large batch at a time; none of them is a single example
    left over."""
    total, mean = torch.zeros_like(w), Average(examples)
    *parts, last = torch.arange(examples).split(256)
    if parts and len(last) == 1:
        last = torch.cat([parts.pop(), last])
    for places in (*parts, last):
        here = oracle(places)
        mean.add(total, here(w), len(places), here.count)
    return mean.finish(total)


def full_gradient(learner: Learner, data: ClientData, w: Tensor, terms: Terms = ()) -> Tensor:
    """The gradient over all of a client's examples, as they are, of the loss and ``terms`` of
    it."""
    learner.flat.train()
    return batched_gradient(
        lambda places: Oracle(learner, data.batch(places, learner.dtype), terms, still=True),
        len(data),
        w,
    )
