"""Styles as means and deviations of colours in LAB space.

Reinhard et al., Color Transfer between Images, 2001:

    x' = (x - mean) / std * other_std + other_mean      per channel, in LAB; then back to RGB

LAB has 8 bits per channel, as in OpenCV: ``L 255/100, a + 128, b + 128`` of sRGB under D65 white.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedflat.data.styles.frequencies import levels
from fedflat.errors import SettingError

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
