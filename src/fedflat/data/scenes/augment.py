"""Random views of scenes, an image and its mask together, a batch at a time, and random colours.

    ScaleCrop   scaled by a random factor, filled up with black and ignored pixels, cut at a random place
    AreaCrop    a window of random area and shape, stretched to one size
    Jitter      brightness, contrast and saturation, each times a random factor

Images are sampled between pixels (bilinear, not smoothed when they shrink), masks at the nearest
pixel.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.data.scenes.classes import IGNORE
from fedflat.errors import SettingError, number

MIDDLE_GREY = 74.0
"""The grey that contrast is changed around, as in FedDrive's code."""
LIGHT = (0.299, 0.587, 0.114)
"""How much red, green and blue count in grey."""


@dataclass(frozen=True)
class Jitter:
    """Brightness, contrast and saturation times factors from ``1 - strength`` to ``1 + strength``,
    in this order."""

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
    """A crop of ``height`` x ``width`` of the image, scaled from ``low`` to ``high``, mirrored now
    and then."""

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
        """Views of the images ``(N, 3, H, W)`` and of their masks ``(N, H, W)``."""
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
    """A window of ``low`` to ``high`` times the image's area and an aspect from 3/4 to 4/3,
    stretched to one size.

    Of ten windows the first that fits is taken; if none does, the largest of an aspect in that
    range, in the middle.
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
        """Views of the images ``(N, 3, H, W)`` and of their masks ``(N, H, W)``."""
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
        first = fits.int().argmax(0)  # the first that fits, or the first of all
        chosen = spans.gather(1, first.view(1, 1, n).expand(2, 1, n)).squeeze(1)
        limit = min(max(width / height, 3 / 4), 4 / 3)
        largest = (
            torch.tensor([min(height, width / limit), min(width, height * limit)])
            .view(2, 1)
            .expand(2, n)
        )
        found = fits.any(0)
        chosen = torch.where(found, chosen, largest)
        room = torch.tensor([height, width]).view(2, 1) - chosen
        corner = room * torch.where(found, torch.rand(2, n, generator=rng), torch.full((2, n), 0.5))
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
    """Of each image and mask the window from ``corner`` (top, left) over ``spans`` (rows, columns),
    as ``size``.

    What lies outside is black and ignored.
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
    """Where the middles of ``count`` pixels lie in the image, counted in its pixels from its
    edge."""
    step = span.double() / count
    return first.double().unsqueeze(1) + (torch.arange(count) + 0.5) * step.unsqueeze(1)


def _between_pixels(image: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The colours at these places, from the four pixels around each; of the image no more is
    touched than is seen."""
    x = image
    for axis, places in ((1, rows), (2, columns)):
        middle = (places - 0.5).clamp(0, x.shape[axis] - 1)
        low = middle.long()
        first, last = int(low.min()), min(int(low.max()) + 2, x.shape[axis])
        seen = x.narrow(axis, first, last - first)
        below, above = low - first, (low + 1 - first).clamp(max=last - first - 1)
        share = (middle - low).float().view(-1, 1) if axis == 1 else (middle - low).float()
        one, other = (seen[:, at] if axis == 1 else seen[:, :, at] for at in (below, above))
        x = torch.lerp(one.float(), other.float(), share)
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
