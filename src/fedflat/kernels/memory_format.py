"""How a batch of images lies in memory: one channel after the other, or pixel by pixel with the
channels last.

The function computed is the same, up to the rounding of sums taken in another order, but not the
time: with channels last, pooling reads whole vectors, and convolutions need no copies in an order
of their own. Weights may lie as they do. Which of the two is quicker is judged by the layers and
not by the clock, so that a command gives the same bits always.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

NARROW, WIDE = 8, 64
"""Channels out of a convolution below which nothing is gained; and above which nothing is, unless
there is pooling."""
POOLS = (nn.MaxPool2d, nn.AvgPool2d)
"""Layers that gain most: contiguous images take them ten times as long."""
SLOWER: tuple[type[nn.Module], ...] = (
    nn.modules.instancenorm._InstanceNorm,
    nn.modules.conv._ConvTransposeNd,
)
"""Layers that lose more than others gain."""


def channels_last(x: Tensor) -> Tensor:
    """The batch ``(N, C, H, W)`` with channels last; of one channel too, which torch takes for
    contiguous else.

    >>> [channels_last(torch.zeros(2, c, 4, 5)).stride() for c in (3, 1)]
    [(60, 1, 15, 3), (20, 1, 5, 1)]
    """
    _, c, h, w = x.shape
    return x.contiguous(memory_format=torch.channels_last).as_strided(
        x.shape, (c * h * w, 1, c * w, c)
    )


def gains(module: nn.Module) -> bool:
    """Whether the module's layers are quicker with channels last, in training on a CPU.

    >>> gains(nn.Sequential(nn.Conv2d(3, 16, 3), nn.MaxPool2d(2))), gains(nn.Linear(4, 2))
    (True, False)
    """
    parts = list(module.modules())
    convolutions = [part for part in parts if isinstance(part, nn.Conv2d)]
    if not convolutions or any(isinstance(part, SLOWER) for part in parts):
        return False
    widest = max(conv.out_channels for conv in convolutions)
    if widest > WIDE and not any(isinstance(part, POOLS) for part in parts):
        return False
    return all(
        conv.out_channels >= NARROW and conv.groups in (1, conv.in_channels)
        for conv in convolutions
    )


def _numbers(output: Any) -> Tensor:
    """The sum of all that a module gives."""
    parts = list(output.values()) if isinstance(output, dict) else output
    return (
        parts.sum()
        if isinstance(parts, Tensor)
        else torch.stack([_numbers(part) for part in parts]).sum()
    )


def refusal(module: nn.Module, like: Tensor) -> Exception | None:
    """What the module says to a step of training on images with channels last; None if it takes
    them.

    One with ``view`` may not. The module is left alone: a copy is tried, on zeros of the shape of
    ``like``.
    """
    trial = copy.deepcopy(module).train()
    try:
        with torch.random.fork_rng(devices=[]):
            _numbers(trial(channels_last(torch.zeros_like(like)))).backward()
    except Exception as error:
        return error
    return None
