"""Random crops of images and masks, and random colours, for whole batches.

    ScaleCrop   scaled by a random factor, padded with black and ignored pixels, cropped
    AreaCrop    a window of random area and shape, resized
    Jitter      brightness, contrast and saturation, each times a random factor

Images are interpolated bilinearly (without antialiasing), masks by nearest neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.data.scenes.classes import IGNORE
from fedflat.errors import SettingError, number

MIDDLE_GREY = 74.0
"""The grey level around which contrast is changed, as in FedDrive's code."""
LIGHT = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in grey."""


@dataclass(frozen=True)
class Jitter:
    """Brightness, contrast and saturation times random factors around 1, up to ``strength`` off."""

    strength: float = 0.4

    def __post_init__(self) -> None:
        number("Jitter", "strength", self.strength, low=0, high=1)

    def __call__(self, images: Tensor, rng: torch.Generator) -> Tensor:
        """The images ``(N, 3, h, w)`` as bytes, each with its own factors."""
        factors = 1 + self.strength * (2 * torch.rand(3, len(images), 1, 1, 1, generator=rng) - 1)
        bright, contrast, colour = factors.to(images.device).unbind()
        x = (images.float() * bright).clamp(0, 255)
        x = ((x - MIDDLE_GREY) * contrast + MIDDLE_GREY).clamp(0, 255)
        grey = (x * x.new_tensor(LIGHT).view(1, 3, 1, 1)).sum(1, keepdim=True)
        x = (grey + (x - grey) * colour).clamp(0, 255)
        return x.round().to(torch.uint8)


@dataclass(frozen=True)
class ScaleCrop:
    """A random crop of ``height`` x ``width``, scaled by ``low`` to ``high`` and mirrored at
    random."""

    height: int
    width: int
    low: float = 0.5
    high: float = 1.5
    flip: float = 0.5
    jitter: Jitter | None = None

    def __post_init__(self) -> None:
        _check("ScaleCrop", self.height, self.width, self.low, self.high, self.flip)

    def __call__(
        self, inputs: Tensor, targets: Tensor, rng: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Crops of the images ``(N, 3, H, W)`` and of their masks ``(N, H, W)``."""
        n, (height, width) = len(inputs), inputs.shape[-2:]
        scale = _between(self.low, self.high, n, rng)
        room = torch.stack([scale * height - self.height, scale * width - self.width]).clamp(min=0)
        corner = (torch.rand(2, n, generator=rng) * (room.floor() + 1)).floor().minimum(room)
        mirrored = torch.rand(n, generator=rng) < self.flip
        spans = torch.stack([self.height / scale, self.width / scale])
        x, y = view(inputs, targets, corner / scale, spans, (self.height, self.width), mirrored)
        return (x if self.jitter is None else self.jitter(x, rng)), y


@dataclass(frozen=True)
class AreaCrop:
    """A window of ``low`` to ``high`` times the area and aspect 3/4 to 4/3, resized to one size.

    The first of ten random windows that fits is used. If none fits, the largest centred window of
    an allowed aspect is used.
    """

    height: int
    width: int
    low: float = 0.5
    high: float = 2.0
    flip: float = 0.5
    jitter: Jitter | None = None
    tries: int = 10

    def __post_init__(self) -> None:
        _check("AreaCrop", self.height, self.width, self.low, self.high, self.flip)
        number("AreaCrop", "tries", self.tries, low=1, high=1000, whole=True)

    def __call__(
        self, inputs: Tensor, targets: Tensor, rng: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Crops of the images ``(N, 3, H, W)`` and of their masks ``(N, H, W)``."""
        n, (height, width) = len(inputs), inputs.shape[-2:]
        area = (
            height * width * _between(self.low, self.high, n * self.tries, rng).view(self.tries, n)
        )
        aspect = 2 ** (
            _between(-1, 1, n * self.tries, rng).view(self.tries, n)
            * torch.log2(torch.tensor(4 / 3))
        )
        spans = torch.stack([(area / aspect).sqrt(), (area * aspect).sqrt()])
        fits = (spans[0] <= height) & (spans[1] <= width)
        first = fits.int().argmax(0)  # the first that fits, or window 0
        chosen = spans.gather(1, first.view(1, 1, n).expand(2, 1, n)).squeeze(1)
        limit = min(max(width / height, 3 / 4), 4 / 3)
        largest = (
            torch.tensor([min(height, width / limit), min(width, height * limit)])
            .view(2, 1)
            .expand(2, n)
        )
        any_fits = fits.any(0)
        chosen = torch.where(any_fits, chosen, largest)
        room = torch.tensor([height, width]).view(2, 1) - chosen
        corner = room * torch.where(
            any_fits, torch.rand(2, n, generator=rng), torch.full((2, n), 0.5)
        )
        mirrored = torch.rand(n, generator=rng) < self.flip
        x, y = view(inputs, targets, corner, chosen, (self.height, self.width), mirrored)
        return (x if self.jitter is None else self.jitter(x, rng)), y


def view(
    images: Tensor,
    masks: Tensor,
    corner: Tensor,
    spans: Tensor,
    size: tuple[int, int],
    mirrored: Tensor,
) -> tuple[Tensor, Tensor]:
    """The window from ``corner`` (top, left) over ``spans`` (rows, columns), resized to ``size``.

    Pixels outside of the image are black and ignored.
    """
    height, width = images.shape[2:]
    rows, columns = (_places(corner[i], spans[i], size[i]) for i in (0, 1))
    columns = torch.where(mirrored.view(-1, 1), columns.flip(1), columns)
    x = images.new_empty(*images.shape[:2], *size)
    y = masks.new_empty(len(masks), *size)
    for image, (down, along) in enumerate(
        zip(rows.to(images.device), columns.to(images.device), strict=True)
    ):
        x[image] = _between_pixels(images[image], down, along)
        y[image] = masks[image][down.long().clamp(max=height - 1)][
            :, along.long().clamp(max=width - 1)
        ]
        for part, outside in ((x[image], 0), (y[image], IGNORE)):
            part[..., down >= height, :] = outside
            part[..., along >= width] = outside
    return x, y


def _places(first: Tensor, span: Tensor, count: int) -> Tensor:
    """Centres of ``count`` pixels, in pixel coordinates of the image."""
    step = span.double() / count
    return first.double().unsqueeze(1) + (torch.arange(count) + 0.5) * step.unsqueeze(1)


def _between_pixels(image: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Bilinear interpolation at these positions, without touching the rest of the image."""
    x = image
    for axis, places in ((1, rows), (2, columns)):
        middle = (places - 0.5).clamp(0, x.shape[axis] - 1)
        low = middle.long()
        first, last = int(low.min()), min(int(low.max()) + 2, x.shape[axis])
        part = x.narrow(axis, first, last - first)
        below, above = low - first, (low + 1 - first).clamp(max=last - first - 1)
        share = (middle - low).float().view(-1, 1) if axis == 1 else (middle - low).float()
        lower, upper = (part[:, at] if axis == 1 else part[:, :, at] for at in (below, above))
        x = torch.lerp(lower.float(), upper.float(), share)
    return x.round_()


def _between(low: float, high: float, count: int, rng: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(count, generator=rng, dtype=torch.float64)


def _check(owner: str, height: int, width: int, low: float, high: float, flip: float) -> None:
    number(owner, "height", height, low=1, high=100_000, whole=True)
    number(owner, "width", width, low=1, high=100_000, whole=True)
    number(owner, "flip", flip, low=0, high=1)
    number(owner, "low", low, low=0, open_low=True, high=100)
    number(owner, "high", high, low=0, open_low=True, high=100)
    if high < low:
        raise SettingError(f"{owner}: high must not be below low, found {low} and {high}.")
