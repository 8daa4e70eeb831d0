"""Random changes of whole batches: crop and flip of raw images, cutout, mixup.

Crop and flip come before normalization, as is usual for CIFAR; the border is black. Cutout (DeVries
and Taylor, arXiv:1708.04552) and mixup (Zhang et al., ICLR 2018, arXiv:1710.09412) come after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from fedflat.data.examples import Batch, Mixed, each
from fedflat.errors import MOST_POINTS, SettingError, number


@dataclass(frozen=True)
class CropFlip:
    """Pad images with zeros, crop to the original size at a random position, and mirror at random.

    padding
        Pixels added on each side, at least 0.
    flip
        Probability of mirroring left and right.
    crop
        Probability of cropping at a random position; otherwise an image is not moved.
    border
        Colour of the border, one number per channel; empty means 0, black.
    alike
        Draw once per batch and change all its images in the same way.
    mask
        Label outside of masks, if targets are masks that move with their images; None if they are
        not.
    """

    padding: int = 4
    flip: float = 0.5
    mask: int | None = None
    crop: float = 1.0
    border: tuple[int, ...] = ()
    alike: bool = False

    def __post_init__(self) -> None:
        number("CropFlip", "padding", self.padding, low=0, high=MOST_POINTS, whole=True)
        number("CropFlip", "flip", self.flip, low=0, high=1)
        number("CropFlip", "crop", self.crop, low=0, high=1)

    def __call__(self, inputs: Tensor, targets: Any, rng: torch.Generator) -> tuple[Tensor, Any]:
        """The images ``(N, C, H, W)``, cropped and flipped, and masks ``(N, H, W)`` with them."""
        if len(self.border) > 1 and len(self.border) != inputs.shape[1]:
            raise SettingError(
                f"CropFlip: border must have a number for each channel, found {len(self.border)} "
                f"numbers and images of {inputs.shape[1]}. Give as many, or none for black."
            )
        place = self._source_pixels(inputs, rng)
        if self.mask is not None:
            targets = self._gather(targets.unsqueeze(1), place, (self.mask,)).squeeze(1)
        return self._gather(inputs, place, self.border or (0,)), targets

    def _source_pixels(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """For each pixel, its position in the padded image; one row per image, or one for all."""
        h, w = x.shape[2:]
        n, p = 1 if self.alike else len(x), self.padding
        corner = torch.randint(2 * p + 1, (2, n, 1), generator=rng)
        mirrored = torch.rand(n, 1, generator=rng) < self.flip
        if self.crop < 1:
            corner = torch.where(torch.rand(n, 1, generator=rng) < self.crop, corner, p)
        columns = torch.arange(w)
        rows = corner[0] + torch.arange(h)
        columns = corner[1] + torch.where(mirrored, columns.flip(0), columns)
        place = (rows * (w + 2 * p)).unsqueeze(2) + columns.unsqueeze(1)
        return place.view(n, 1, h * w).to(x.device)

    def _gather(self, x: Tensor, place: Tensor, outside: tuple[int, ...]) -> Tensor:
        n, c, h, w = x.shape
        p = self.padding
        if len(outside) == 1:
            padded = pad(x, (p,) * 4, value=outside[0])
        else:
            colour = torch.tensor(outside, dtype=x.dtype, device=x.device).view(1, c, 1, 1)
            padded = colour.repeat(n, 1, h + 2 * p, w + 2 * p)
            padded[:, :, p : p + h, p : p + w] = x
        return padded.view(n, c, -1).gather(2, place.expand(n, c, h * w)).view(n, c, h, w)


def cutout(x: Tensor, side: int, rng: torch.Generator) -> Tensor:
    """The normalized batch with a square of ``side`` pixels set to 0 in each image.

    Its centre is a random pixel. Parts outside the image are cut off, so the square may be smaller.
    """
    number("cutout", "side", side, low=1, whole=True)
    n, _, h, w = x.shape

    def inside(length: int) -> Tensor:
        first = torch.randint(length, (n, 1), generator=rng) - side // 2
        place = torch.arange(length)
        return (place >= first) & (place < first + side)

    hole = inside(h).unsqueeze(2) & inside(w).unsqueeze(1)
    return x.masked_fill(hole.unsqueeze(1).to(x.device), 0)


def mixup(batch: Batch, alpha: float, rng: torch.Generator) -> Batch:
    """The batch mixed with a permutation of itself: ``lam x + (1 - lam) x'``, with both targets.

    One ``lam ~ Beta(alpha, alpha)`` for the whole batch; ``alpha`` is above 0, and 1 is usual.
    """
    number("mixup", "alpha", alpha, low=0, open_low=True)
    seed = int(torch.randint(2**63 - 1, (1,), generator=rng))
    lam = float(np.random.default_rng(seed).beta(alpha, alpha))
    other = torch.randperm(len(batch), generator=rng).to(batch.first.device)
    inputs = each(lambda x: torch.lerp(x.index_select(0, other), x, lam), batch.inputs)
    return Batch(
        inputs, Mixed(batch.targets, each(lambda y: y.index_select(0, other), batch.targets), lam)
    )
