"""The gradient over many examples, a large batch at a time: of one client, or of a stack of them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedflat.client.piece import BatchOracle
from fedflat.tasks.average import Average


def survey(oracle: Callable[[Tensor], BatchOracle], examples: int, w: Tensor) -> Tensor:
    """The gradient over ``examples``, a large batch at a time; none of them is a single example left over."""
    total, mean = torch.zeros_like(w), Average(examples)
    *parts, last = torch.arange(examples).split(256)
    if parts and len(last) == 1:
        last = torch.cat([parts.pop(), last])
    for places in (*parts, last):
        here = oracle(places)
        mean.add(total, here(w), len(places), here.count)
    return mean.finish(total)
