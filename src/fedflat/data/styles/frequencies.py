"""Styles as amplitudes of low frequencies, after Yang and Soatto, FDA, CVPR 2020, arXiv:2004.05498.

    F      the Fourier transform of a channel, h x w frequencies; A = |F|
    style  A at the frequencies -r..r by -c..c: the centre of the shifted amplitudes, (2r+1) x (2c+1) numbers
    x'     the image with other amplitudes there; phases and all other frequencies stay

Only these frequencies change, so only they are computed: with E_r and E_c the rows of the
transform's matrices,

    F = E_r x E_c'        x' = x + Re(E_r* (A' - A) F/A E_c*') / (h w)

which needs no transform of the whole image and gives an image its own style without any error.
Where an image has nothing at a frequency (a constant image has nothing but its mean), the phase
there is 0.

LADD gives source images the styles of clients (`exchange`, r = c = 1); FedDrive's CFSI mixes images
with one another (`mix`, r = 5 % of h, c = 5 % of w).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from fedflat.errors import SettingError, number, shown

HALVES = (1, 1)
"""LADD's window: 3 x 3 amplitudes of each channel."""
GUARD = 1e-3
"""Added before grey levels are truncated, so that rounding does not take a level from an image with
its own style."""


def halves(height: int, width: int, share: float) -> tuple[int, int]:
    """Half the window's sides as CFSI has them: a share of each side of the image.

    >>> halves(180, 240, 0.05)
    (9, 12)
    """
    number("a style", "the window's share of a side", share, low=0, high=0.5)
    return min(math.floor(height * share), (height - 1) // 2), min(
        math.floor(width * share), (width - 1) // 2
    )


def amplitudes(images: Tensor, half: tuple[int, int] = HALVES) -> Tensor:
    """The amplitudes ``(N, C, 2r+1, 2c+1)`` of images ``(N, C, h, w)`` around frequency 0, which is
    in the middle."""
    return _low(_real(images), half).abs()


def client_style(
    images: Tensor, half: tuple[int, int] = HALVES, size: tuple[int, int] | None = (512, 1024)
) -> Tensor:
    """The mean of the images' amplitudes, ``(C, 2r+1, 2c+1)``: what a client of LADD sends once.

    The images have grey levels from 0 to 255 and are resized to ``size`` (height, width; ``None``:
    as they are). Channels stay in their order.
    """
    if len(images) == 0:
        raise SettingError("a style: it is a mean over images, found none.")
    return amplitudes(resized(images, size), half).mean(0)


def resized(images: Tensor, size: tuple[int, int] | None) -> Tensor:
    """Images of another height and width: cubic and smoothed, as Pillow does it, but not
    rounded."""
    x = _real(images)
    if size is None or tuple(x.shape[-2:]) == tuple(size):
        return x
    return interpolate(x, size=list(size), mode="bicubic", antialias=True, align_corners=False)


def exchange(images: Tensor, styles: Tensor, share: float | Tensor = 1.0) -> Tensor:
    """The images with the amplitudes ``A + share (styles - A)`` around frequency 0, before
    rounding.

    ``styles`` has one window for each image, or one for all; its size says the window's. ``share``
    may be a number for each image.
    """
    x = _real(images)
    sides = tuple(styles.shape[-2:])
    if styles.shape[-3] != x.shape[1] or any(side % 2 == 0 for side in sides):
        raise SettingError(
            f"a style must have {x.shape[1]} channels, as the images, and odd sides, found {tuple(styles.shape[-3:])}."
        )
    low = _low(x, (sides[0] // 2, sides[1] // 2))
    own = low.abs()
    lam = share.to(x).view(-1, 1, 1, 1) if isinstance(share, Tensor) else share
    phase = torch.where(
        own > 0, low / own.clamp(min=torch.finfo(own.dtype).tiny), torch.ones_like(low)
    )
    rows, columns = _waves(x, (sides[0] // 2, sides[1] // 2))
    change = rows.conj().T @ ((styles.to(own) - own) * lam * phase) @ columns.conj()
    return x + change.real / (x.shape[-2] * x.shape[-1])


def restyled(images: Tensor, styles: Tensor, size: tuple[int, int] | None = (512, 1024)) -> Tensor:
    """Images with grey levels from 0 to 255 in the styles of clients, as LADD trains on them before
    the rounds.

    The exchange is done at the ``size`` the styles were taken at, and the result resized back.
    """
    changed = exchange(resized(images, size), styles).round().clamp(0, 255)
    return (
        resized(changed, (images.shape[-2], images.shape[-1])).round().clamp(0, 255).to(torch.uint8)
    )


def mix(images: Tensor, styles: Tensor, share: float | Tensor) -> Tensor:
    """CFSI: images with grey levels from 0 to 255 whose amplitudes go a ``share`` of the way to the
    styles'.

    Its values are truncated to whole levels; what is brighter than 255 is 255.
    """
    return levels(exchange(images, styles, share).abs())


def levels(values: Tensor) -> Tensor:
    """Whole grey levels from 0 to 255, truncated.

    >>> levels(torch.tensor([-3.0, 11.9, 11.9999, 256.8])).tolist()
    [0, 11, 12, 255]
    """
    return (values + GUARD).clamp(0, 255).to(torch.uint8)


def _real(images: Tensor) -> Tensor:
    if images.dim() != 4:
        raise SettingError(
            f"a style: images must be a batch (N, channels, h, w), found {tuple(images.shape)}."
        )
    return images if images.is_floating_point() else images.to(torch.float32)


def _low(x: Tensor, half: tuple[int, int]) -> Tensor:
    rows, columns = _waves(x, half)
    low: Tensor = rows @ x.to(rows.dtype) @ columns.T
    # What a sum of so many terms leaves by rounding alone is nothing.
    nothing = torch.finfo(x.dtype).eps * x.abs().sum(dim=(-2, -1), keepdim=True)
    return torch.where(low.abs() > nothing, low, torch.zeros_like(low))


def _waves(x: Tensor, half: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The rows of the two transforms' matrices that belong to the frequencies from ``-half`` to
    ``half``."""
    found = []
    for name, side, reach in zip(("height", "width"), x.shape[-2:], half, strict=True):
        if not 0 <= reach <= (side - 1) // 2:
            raise SettingError(
                f"a style: frequencies up to {shown(reach)} cannot be told apart in images of {name} {side}. "
                f"Use at most {(side - 1) // 2}."
            )
        frequencies = torch.arange(-reach, reach + 1, device=x.device)
        # Whole turns are taken off while the numbers are whole, so that large images lose no
        # digits.
        turns = torch.outer(frequencies, torch.arange(side, device=x.device)) % side
        angle = turns.to(torch.float64) * (-2 * math.pi / side)
        wave = torch.complex(angle.cos(), angle.sin())
        found.append(wave.to(torch.complex128 if x.dtype == torch.float64 else torch.complex64))
    return found[0], found[1]
