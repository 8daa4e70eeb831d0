"""A small U-Net: one score for each class and pixel.

Ronneberger et al., U-Net: Convolutional Networks for Biomedical Image Segmentation, MICCAI 2015,
arXiv:1505.04597.

    down   three 3x3 convolutions of stride 2: width, 2 width, 4 width channels; one more at the end
    up     three times: enlarge to the size before (nearest neighbour), concatenate with the
           features of that size, a 3x3 convolution
    end    a 1x1 convolution to the classes, at full size

Each 3x3 convolution is followed by GroupNorm and ReLU. The paper's network is unpadded, has two
convolutions per step and about a hundred times the parameters. This one is for tests and for
machines without an accelerator.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from fedflat.errors import MOST_AT_ONCE, number
from fedflat.models.spec import ModelSpec, divides, image
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class SmallUNet(ModelSpec):
    """A small U-Net with GroupNorm for masks: one score for each class and pixel.

    Images have 8x8 pixels or more.

    >>> net = small_unet().build((3, 64, 128), 9)
    >>> net(torch.zeros(2, 3, 64, 128)).shape, sum(p.numel() for p in net.parameters())
    (torch.Size([2, 9, 64, 128]), 98265)
    """

    width: int = 16
    """Channels of the first convolution."""
    groups: int = 4
    """Groups of every GroupNorm; divides the width."""

    def __post_init__(self) -> None:
        number("small_unet", "width", self.width, low=1, high=MOST_AT_ONCE, whole=True)
        divides("small_unet", self.groups, self.width)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, _, _ = image("small_unet", shape, classes, smallest=8)
        return SmallUNetModule(channels, classes, self.width, self.groups)


class SmallUNetModule(nn.Module):
    """The network; layers are named by their level."""

    recorded_as = "Net"
    """The class name in the digests of run folders."""

    head_layers = ("up2", "up1", "up0", "classify")

    def __init__(self, channels: int, classes: int, width: int, groups: int) -> None:
        super().__init__()
        self.down1 = _step(channels, width, groups, stride=2)
        self.down2 = _step(width, 2 * width, groups, stride=2)
        self.down3 = _step(2 * width, 4 * width, groups, stride=2)
        self.deepest = _step(4 * width, 4 * width, groups)
        self.up2 = _step(6 * width, 2 * width, groups)
        self.up1 = _step(3 * width, width, groups)
        self.up0 = _step(width + channels, width, groups)
        self.classify = nn.Conv2d(width, classes, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of shape (images, classes, height, width)."""
        half = self.down1(x)
        quarter = self.down2(half)
        y = self.deepest(self.down3(quarter))
        y = self.up2(_join(y, quarter))
        y = self.up1(_join(y, half))
        y = self.up0(_join(y, x))
        out: Tensor = self.classify(y)
        return out


def _step(before: int, after: int, groups: int, stride: int = 1) -> nn.Module:
    conv = nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(OrderedDict(conv=conv, norm=nn.GroupNorm(groups, after), relu=nn.ReLU()))


def _join(small: Tensor, large: Tensor) -> Tensor:
    return torch.cat([interpolate(small, size=large.shape[-2:], mode="nearest"), large], dim=-3)


small_unet = register("model", "small_unet")(SmallUNet)
