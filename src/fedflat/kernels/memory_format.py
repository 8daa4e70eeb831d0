"""Memory format of image batches: contiguous or channels last.

Both give the same results up to rounding, but not in the same time. With channels last, pooling
reads whole vectors, and convolutions need no copies in another format. Weights may have any format.
The choice depends on the layers and not on measured times, so that a command always gives the same
bits.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

NARROW, WIDE = 8, 64
"""Channels of a convolution's output below which channels last is not faster, and above which it is
faster only with pooling."""
POOLS = (nn.MaxPool2d, nn.AvgPool2d)
"""Layers that gain most: they take ten times as long on contiguous images."""
SLOWER: tuple[type[nn.Module], ...] = (
    nn.modules.instancenorm._InstanceNorm,
    nn.modules.conv._ConvTransposeNd,
)
"""Layers that lose more than others gain."""


def channels_last(x: Tensor) -> Tensor:
    """The batch ``(N, C, H, W)`` in channels-last format, also with one channel.

    >>> [channels_last(torch.zeros(2, c, 4, 5)).stride() for c in (3, 1)]
    [(60, 1, 15, 3), (20, 1, 5, 1)]
    """
    _, c, h, w = x.shape
    return x.contiguous(memory_format=torch.channels_last).as_strided(
        x.shape, (c * h * w, 1, c * w, c)
    )


def gains(module: nn.Module) -> bool:
    """True if the module's layers are faster with channels last, in training on a CPU.

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


def _sum_outputs(output: Any) -> Tensor:
    """The sum of all outputs of a module."""
    parts = list(output.values()) if isinstance(output, dict) else output
    return (
        parts.sum()
        if isinstance(parts, Tensor)
        else torch.stack([_sum_outputs(part) for part in parts]).sum()
    )


def refusal(module: nn.Module, like: Tensor) -> Exception | None:
    """The error of a training step on channels-last images; None if the module accepts them.

    Modules that call ``view`` may fail. A copy of the module is tried, on zeros of the shape of
    ``like``.
    """
    trial = copy.deepcopy(module).train()
    try:
        with torch.random.fork_rng(devices=[]):
            _sum_outputs(trial(channels_last(torch.zeros_like(like)))).backward()
    except Exception as error:
        return error
    return None
