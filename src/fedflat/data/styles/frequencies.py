"""Styles as amplitudes of low frequencies, after Yang and Soatto, FDA, CVPR 2020.

    F      the Fourier transform of a channel, h x w frequencies; A = |F|
    style  A at the frequencies -r..r by -c..c: the centre of the shifted amplitudes
    x'     the image with other amplitudes there; phases and all other frequencies stay

(arXiv:2004.05498.) Only these frequencies change, so only they are computed. With E_r and E_c the
rows of the transform's matrices,

    F = E_r x E_c'        x' = x + Re(E_r* (A' - A) F/A E_c*') / (h w)

which needs no transform of the whole image and gives an image its own style without any error.
Where the amplitude is 0 (a constant image has only its mean), the phase is 0.

LADD gives source images the styles of clients (`exchange`, r = c = 1). FedDrive's CFSI mixes images
with one another (`mix`, r = 5 % of h, c = 5 % of w).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from fedflat.errors import SettingError, number, shown

HALVES = (1, 1)
"""LADD's window: 3 x 3 amplitudes per channel."""
GUARD = 1e-3
"""Added before grey levels are truncated, so that rounding does not change an image with its own
style."""


def halves(height: int, width: int, share: float) -> tuple[int, int]:
    """Half the window's sides as in CFSI: a share of each side of the image.

    >>> halves(180, 240, 0.05)
    (9, 12)
    """
    number("a style", "the window's share of a side", share, low=0, high=0.5)
    return min(math.floor(height * share), (height - 1) // 2), min(
        math.floor(width * share), (width - 1) // 2
    )


def amplitudes(images: Tensor, half: tuple[int, int] = HALVES) -> Tensor:
    """The amplitudes ``(N, C, 2r+1, 2c+1)`` of images ``(N, C, h, w)``, frequency 0 centred."""
    return _low(_real(images), half).abs()


def resized(images: Tensor, size: tuple[int, int] | None) -> Tensor:
    """Images of another height and width: bicubic with antialiasing, as in Pillow, not rounded."""
    x = _real(images)
    if size is None or tuple(x.shape[-2:]) == tuple(size):
        return x
    return interpolate(x, size=list(size), mode="bicubic", antialias=True, align_corners=False)


def exchange(images: Tensor, styles: Tensor, share: float | Tensor = 1.0) -> Tensor:
    """The images with the amplitudes ``A + share (styles - A)`` around frequency 0, not rounded.

    ``styles`` has one window per image, or one for all; its size is that of the window. ``share``
    may be a number per image.
    """
    x = _real(images)
    sides = tuple(styles.shape[-2:])
    if styles.shape[-3] != x.shape[1] or any(side % 2 == 0 for side in sides):
        raise SettingError(
            f"a style must have {x.shape[1]} channels, as the images, and odd sides, found "
            f"{tuple(styles.shape[-3:])}."
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
    """Images with levels from 0 to 255 in the styles of clients, as LADD's server trains on them.

    The exchange is made at ``size``, at which the styles were computed, and the result is resized
    back.
    """
    changed = exchange(resized(images, size), styles).round().clamp(0, 255)
    return (
        resized(changed, (images.shape[-2], images.shape[-1])).round().clamp(0, 255).to(torch.uint8)
    )


def mix(images: Tensor, styles: Tensor, share: float | Tensor) -> Tensor:
    """CFSI: images with levels from 0 to 255 with amplitudes moved towards ``styles`` by ``share``.

    The result is truncated to integer levels up to 255.
    """
    return levels(exchange(images, styles, share).abs())


def levels(values: Tensor) -> Tensor:
    """Integer grey levels from 0 to 255, truncated.

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
    # Amplitudes below the rounding error of the sum count as 0.
    nothing = torch.finfo(x.dtype).eps * x.abs().sum(dim=(-2, -1), keepdim=True)
    return torch.where(low.abs() > nothing, low, torch.zeros_like(low))


def _waves(x: Tensor, half: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The rows of both transform matrices for the frequencies from ``-half`` to ``half``."""
    waves = []
    for name, side, reach in zip(("height", "width"), x.shape[-2:], half, strict=True):
        if not 0 <= reach <= (side - 1) // 2:
            raise SettingError(
                f"a style: frequencies up to {shown(reach)} cannot be distinguished in images of "
                f"{name} {side}. Use at most {(side - 1) // 2}."
            )
        frequencies = torch.arange(-reach, reach + 1, device=x.device)
        # Subtract whole turns while the numbers are integers, so that large images lose no digits.
        turns = torch.outer(frequencies, torch.arange(side, device=x.device)) % side
        angle = turns.to(torch.float64) * (-2 * math.pi / side)
        wave = torch.complex(angle.cos(), angle.sin())
        waves.append(wave.to(torch.complex128 if x.dtype == torch.float64 else torch.complex64))
    return waves[0], waves[1]
