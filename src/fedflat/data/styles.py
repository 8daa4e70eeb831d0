"""Image styles that can be transferred: by frequencies or by colours, and banks of styles.

Styles as amplitudes of low frequencies, after Yang and Soatto, FDA, CVPR 2020 (arXiv:2004.05498):

    F      the Fourier transform of a channel, h x w frequencies; A = |F|
    style  A at the frequencies -r..r by -c..c: the centre of the shifted amplitudes
    x'     the image with other amplitudes there; phases and all other frequencies stay

Only these frequencies change, so only they are computed. With E_r and E_c the rows of the
transform's matrices,

    F = E_r x E_c'        x' = x + Re(E_r* (A' - A) F/A E_c*') / (h w)

which needs no transform of the whole image and gives an image its own style without any error.
Where the amplitude is 0 (a constant image has only its mean), the phase is 0. LADD gives source
images the styles of clients (`exchange`, r = c = 1). FedDrive's CFSI mixes images with one another
(`mix`, r = 5 % of h, c = 5 % of w).

Styles as means and deviations of colours, after Reinhard et al., Color Transfer between Images, 2001:

    x' = (x - mean) / std * other_std + other_mean      per channel, in LAB; then back to RGB

LAB has 8 bits per channel, as in OpenCV: ``L 255/100, a + 128, b + 128`` of sRGB under D65 white.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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


SAME = 1e-6
"""Below this deviation of grey levels a channel counts as constant and gets the other mean."""
TO_XYZ = (
    (0.412453, 0.357580, 0.180423),
    (0.212671, 0.715160, 0.072169),
    (0.019334, 0.119193, 0.950227),
)
"""Linear RGB to XYZ."""
WHITE = (0.950456, 1.0, 1.088754)
CORNER = 0.008856
"""Below this value LAB replaces the cube root by a straight line."""


def rgb_to_lab(images: Tensor) -> Tensor:
    """LAB on an 8-bit scale, not rounded, of images ``(N, 3, h, w)`` with levels from 0 to 255.

    >>> lab = rgb_to_lab(torch.tensor([200, 100, 50]).view(1, 3, 1, 1))
    >>> lab.flatten().round(decimals=3).tolist()
    [136.755, 164.307, 173.379]
    """
    c = _colours(images).to(torch.float64) / 255
    c = torch.where(c > 0.04045, ((c + 0.055) / 1.055).pow(2.4), c / 12.92)
    xyz = torch.einsum("ij,njhw->nihw", c.new_tensor(TO_XYZ), c) / c.new_tensor(WHITE).view(
        1, 3, 1, 1
    )
    f = torch.where(xyz > CORNER, xyz.pow(1 / 3), 7.787 * xyz + 16 / 116)
    y = xyz[:, 1]
    light = torch.where(y > CORNER, 116 * f[:, 1] - 16, 903.3 * y)
    return torch.stack(
        [light * 2.55, 500 * (f[:, 0] - f[:, 1]) + 128, 200 * (f[:, 1] - f[:, 2]) + 128], dim=1
    )


def lab_to_rgb(lab: Tensor) -> Tensor:
    """RGB from 0 to 255, not rounded, of LAB on an 8-bit scale; other colours are clipped."""
    lab = _colours(lab).to(torch.float64)
    light = lab[:, 0] / 2.55
    bright = light > 903.3 * CORNER
    fy = torch.where(bright, (light + 16) / 116, 7.787 * light / 903.3 + 16 / 116)
    f = torch.stack([fy + (lab[:, 1] - 128) / 500, fy, fy - (lab[:, 2] - 128) / 200], dim=1)
    xyz = torch.where(f > 7.787 * CORNER + 16 / 116, f.pow(3), (f - 16 / 116) / 7.787)
    xyz = xyz * lab.new_tensor(WHITE).view(1, 3, 1, 1)
    c = torch.einsum("ij,njhw->nihw", torch.linalg.inv(lab.new_tensor(TO_XYZ)), xyz).clamp(0, 1)
    return torch.where(c > 0.0031308, 1.055 * c.pow(1 / 2.4) - 0.055, 12.92 * c) * 255


def lab_bytes(images: Tensor) -> Tensor:
    """LAB of images rounded to 8 bits per channel, as floats."""
    return rgb_to_lab(images).round().clamp(0, 255)


def statistics(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and population standard deviation per image and channel, both ``(N, C)``."""
    std, mean = torch.std_mean(values.to(torch.float64), dim=(-2, -1), correction=0)
    return mean, std


def colour_style(images: Tensor) -> tuple[Tensor, Tensor]:
    """Means and deviations of images in 8-bit LAB, both ``(N, 3)``: FedDrive's style."""
    return statistics(lab_bytes(images))


def match_statistics(values: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """The values with another mean and deviation per image and channel, before clipping."""
    x = values.to(torch.float64)
    own_mean, own_std = (part[..., None, None] for part in statistics(x))
    mean, std = (part.to(x)[..., None, None] for part in (mean, std))
    gain = torch.where(own_std > SAME, std / own_std.clamp(min=SAME), torch.zeros_like(own_std))
    return (x - own_mean) * gain + mean


def recoloured(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Images ``(N, 3, h, w)`` with levels from 0 to 255 in other colour styles.

    There is one style per image, or one for all.
    """
    lab = levels(match_statistics(lab_bytes(images), mean, std))
    return lab_to_rgb(lab).round().clamp(0, 255).to(torch.uint8)


def _colours(images: Tensor) -> Tensor:
    if images.dim() != 4 or images.shape[1] != 3:
        raise SettingError(
            "colour styles: images must be a batch (N, 3, h, w) of colours, found "
            f"{tuple(images.shape)}."
        )
    return images


@dataclass(frozen=True)
class StyleBank:
    """A style and a look number per image of all clients; equal looks have equal numbers."""

    styles: Tensor
    """The styles; the first axis counts the images."""
    looks: Tensor

    def __post_init__(self) -> None:
        if len(self.styles) != len(self.looks) or len(self.looks) == 0:
            raise SettingError(
                "a bank of styles needs one style and one domain for each image, found "
                f"{len(self.styles)} styles and {len(self.looks)} domains."
            )

    def __len__(self) -> int:
        return len(self.looks)

    def draw(self, looks: Tensor, rng: torch.Generator, *, own: bool = False) -> Tensor:
        """A random style per image, with replacement, from images of other looks (``own``: from
        all)."""
        indices = []
        for look in looks.tolist():
            others = torch.arange(len(self)) if own else self.others(look)
            indices.append(int(others[torch.randint(len(others), (1,), generator=rng)]))
        return self.styles.index_select(0, torch.tensor(indices, dtype=torch.long))

    def others(self, look: float) -> Tensor:
        """The images with another look."""
        candidates = (self.looks != look).nonzero().squeeze(-1)
        if len(candidates) == 0:
            raise SettingError(
                f"a bank of styles: all {len(self)} images are of one domain, and there is none "
                "of another to take a style from. Use clients of several domains, or let them "
                'take any: exclude="none".'
            )
        return candidates


def chosen(index: Tensor) -> Tensor:
    """Mask of a client's images that get a style: every second one, always the same.

    >>> chosen(torch.arange(5)).tolist()
    [True, False, True, False, True]
    """
    return index % 2 == 0
