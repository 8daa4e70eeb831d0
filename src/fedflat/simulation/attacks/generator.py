"""A generator of images: transposed convolutions from random numbers to the size of an image.

For 32 x 32 pixels: 100 numbers -> 512 channels of 4 x 4 -> 256 -> 128 -> the image's channels. Each
step doubles width and height. There are batch normalisation and ReLU between, and tanh at the end.
Initial weights are from N(0, 0.02). The number of steps is how often the sides can be halved until
one has 4 pixels or an odd number of them. The last hidden layer has ``width`` channels, each one
before it twice as many.
"""

from __future__ import annotations

from itertools import pairwise

from torch import nn

WEIGHT_STD = 0.02
"""Standard deviation of the initial weights."""


def generator(shape: tuple[int, ...], z: int, width: int) -> nn.Module:
    """Return a new module from ``(N, z)`` to images ``(N, *shape)`` between -1 and 1.

    >>> import torch
    >>> generator((3, 32, 32), 100, 128)(torch.zeros(2, 100)).shape
    torch.Size([2, 3, 32, 32])
    >>> [tuple(p.shape[:2]) for p in generator((3, 32, 32), 100, 128).parameters() if p.dim() == 4]
    [(100, 512), (512, 256), (256, 128), (128, 3)]
    """
    channels, *first = shape
    steps = 0
    while all(side > 4 and side % 2 == 0 for side in first):
        steps, first = steps + 1, [side // 2 for side in first]
    wide = [width * 2**step for step in reversed(range(steps))]
    layers: list[nn.Module] = [nn.Unflatten(1, (z, 1, 1))]
    for place, (before, after) in enumerate(pairwise([z, *wide, channels])):
        (tall, broad), stride, padding = (first, 1, 0) if place == 0 else ([4, 4], 2, 1)
        last = place == steps
        layer = nn.ConvTranspose2d(before, after, (tall, broad), stride, padding, bias=last)
        nn.init.normal_(layer.weight, 0.0, WEIGHT_STD)
        layers += [layer, nn.Tanh()] if last else [layer, nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers)
