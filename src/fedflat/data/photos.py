"""Photographs of any size in files: a random part of each for training, its centre for testing.

Inputs of a model need one size. Training takes a random part of the photograph, of random area and
aspect ratio, and mirrors it at random (Szegedy et al., CVPR 2015). Testing takes the central
square. Both are scaled to ``side`` pixels. The draws are those of Flax' ImageNet example; scaling
is bicubic with antialiasing, which Flax leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sqrt

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from fedflat.data.batch import Batch
from fedflat.data.examples import Examples
from fedflat.data.on_disk import OnDisk
from fedflat.errors import number

TRIES = 10
AREA = (0.08, 1.0)
ASPECT = (3 / 4, 4 / 3)
"""Width over height of the random part."""
MARGIN = 224 / 256
"""Side of the central square as a share of the shorter side of the photograph."""
Box = tuple[int, int, int, int]
"""Top, left, height and width in pixels."""


def random_box(height: int, width: int, rng: torch.Generator) -> Box:
    """A random part of a photograph; the central square if ten tries do not fit into it."""
    for _ in range(TRIES):
        u, v, down, right = torch.rand(4, generator=rng, dtype=torch.float64).tolist()
        area = height * width * (AREA[0] + u * (AREA[1] - AREA[0]))
        aspect = ASPECT[0] + v * (ASPECT[1] - ASPECT[0])
        h, w = round(sqrt(area / aspect)), round(sqrt(area * aspect))
        if 0 < h <= height and 0 < w <= width:
            return int(down * (height - h + 1)), int(right * (width - w + 1)), h, w
    return central_box(height, width)


def central_box(height: int, width: int) -> Box:
    """The central square of 224/256 of the shorter side.

    >>> central_box(512, 1000)
    (32, 276, 448, 448)
    """
    side = max(int(MARGIN * min(height, width)), 1)
    return (height - side + 1) // 2, (width - side + 1) // 2, side, side


def scaled(photo: Tensor, box: Box, side: int) -> Tensor:
    """A part of a photograph ``(C, H, W)`` of bytes, scaled to ``side`` x ``side`` pixels."""
    top, left, height, width = box
    part = photo[:, top : top + height, left : left + width]
    if (height, width) == (side, side):
        return part
    pixels = interpolate(part[None].float(), (side, side), mode="bicubic", antialias=True)[0]
    return pixels.round().clamp(0, 255).to(torch.uint8)


@dataclass(frozen=True)
class Photos(OnDisk):
    """Examples whose files hold images of any size.

    side
        Height and width of an input.
    random_parts
        Train on random, mirrored parts of the photographs; otherwise on their centres.
    """

    side: int = 224
    random_parts: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        number("photos", "side", self.side, low=1, high=10_000, whole=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """See `AnyExamples.shape`; no file is read."""
        return (3, self.side, self.side)

    @property
    def augments(self) -> bool:
        return self.random_parts

    def plain(self) -> Photos:
        return replace(self, random_parts=False)

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        random = rng if self.random_parts else None
        return self._examples(index, random).batch(
            torch.arange(len(index), device=self.device), dtype
        )

    def raw(self, index: Tensor) -> Examples:
        """See `AnyExamples.raw`: the centres of the photographs."""
        return self._examples(index, None)

    def _examples(self, index: Tensor, rng: torch.Generator | None) -> Examples:
        parts = [self._part(photo, rng) for photo in self._decoded.take(self._keys(index))]
        inputs = torch.stack(parts) if parts else torch.zeros((0, *self.shape), dtype=torch.uint8)
        targets = self.labels.index_select(0, index.to(self.labels.device))
        examples = Examples(inputs, targets, self.classes, self.mean, self.std)
        return examples.to(self.device)

    def _part(self, photo: Tensor, rng: torch.Generator | None) -> Tensor:
        height, width = photo.shape[1:]
        if rng is None:
            return scaled(photo, central_box(height, width), self.side)
        part = scaled(photo, random_box(height, width, rng), self.side)
        return part.flip(2) if float(torch.rand((), generator=rng)) < 0.5 else part
