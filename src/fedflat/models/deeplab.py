"""DeepLabV3 on MobileNetV2 for semantic segmentation.

Chen et al., Rethinking Atrous Convolution for Semantic Image Segmentation, 2017, arXiv:1706.05587.

    features  MobileNetV2 without its last 1x1 layer: 320 channels, at 1/stride of the size
    ASPP      1x1, three dilated 3x3, and the mean over positions with a 1x1: 256 channels each,
              concatenated; then 1x1 to 256, dropout
    head      3x3 to 256, then 1x1 with bias to the classes, bilinear up to the image's size

The paper uses the rates 6, 12 and 18 at stride 16; LADD trains with ``stride=32, rates=[12, 24,
36]``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from fedflat.errors import SettingError, number
from fedflat.models.inputs import image
from fedflat.models.layers import ConvNorm, pointwise
from fedflat.models.mobilenet import STRIDES, check_mobile, trunk
from fedflat.models.spec import ModelSpec
from fedflat.registry.specs import register

INSIDE = 256


@dataclass(frozen=True, repr=False)
class DeepLabV3(ModelSpec):
    """DeepLabV3 on MobileNetV2: class scores at every pixel. Images have 32x32 pixels or more.

    >>> sum(p.numel() for p in deeplabv3().build((3, 64, 64), 19).parameters())
    5113363
    """

    norm: str = "batch"
    """``"batch"`` or ``"group"``."""
    groups: int = 8
    """Groups of every GroupNorm; divides 8. BatchNorm ignores it."""
    width: float = 1.0
    """Factor of the channels of MobileNetV2; they are rounded to multiples of 8."""
    stride: int = 16
    """Pixels of the image per position of the features: 8, 16 or 32."""
    rates: tuple[int, ...] = (6, 12, 18)
    """Dilations of the parallel 3x3 convolutions; a list will do."""
    dropout: float = 0.1
    """Dropout rate after the parallel convolutions, in training."""

    def __post_init__(self) -> None:
        check_mobile("deeplabv3", self.norm, self.groups, self.width)
        if self.stride not in STRIDES:
            raise SettingError(f"deeplabv3: stride must be 8, 16 or 32, found {self.stride!r}.")
        if not isinstance(self.rates, list | tuple) or not self.rates:
            raise SettingError(
                f"deeplabv3: rates must be a list such as [6, 12, 18], found {self.rates!r}."
            )
        for rate in self.rates:
            number("deeplabv3", "every rate", rate, low=1, high=1000, whole=True)
        object.__setattr__(self, "rates", tuple(self.rates))
        number("deeplabv3", "dropout", self.dropout, low=0, high=1)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, _, _ = image("deeplabv3", shape, classes, smallest=32)
        layers, last = trunk(channels, self.norm, self.groups, self.width, self.stride)
        aspp = Pyramid(last, self.rates, self.norm, self.groups, self.dropout)
        return DeepLab(nn.Sequential(layers), aspp, classes, self.norm, self.groups)


class DeepLab(nn.Module):
    """Features, pyramid and head."""

    head_layers = ("aspp", "head")

    def __init__(
        self, features: nn.Module, aspp: nn.Module, classes: int, norm: str, groups: int
    ) -> None:
        super().__init__()
        self.features, self.aspp = features, aspp
        self.head = nn.Sequential(
            OrderedDict(
                conv=ConvNorm(INSIDE, INSIDE, 3, norm, groups), scores=pointwise(INSIDE, classes)
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        """Scores at every pixel."""
        scores = self.head(self.aspp(self.features(x)))
        return interpolate(scores, size=x.shape[-2:], mode="bilinear", align_corners=False)


class Pyramid(nn.Module):
    """Parallel convolutions of different dilations (atrous spatial pyramid pooling)."""

    def __init__(
        self, before: int, rates: Sequence[int], norm: str, groups: int, dropout: float
    ) -> None:
        super().__init__()
        self.views = nn.ModuleList([ConvNorm(before, INSIDE, 1, norm, groups)])
        self.views.extend(
            ConvNorm(before, INSIDE, 3, norm, groups, dilation=rate) for rate in rates
        )
        self.mean = nn.Sequential(
            OrderedDict(
                pool=nn.AdaptiveAvgPool2d(1), conv=ConvNorm(before, INSIDE, 1, norm, groups)
            )
        )
        self.project = ConvNorm(INSIDE * (len(rates) + 2), INSIDE, 1, norm, groups)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """256 channels of the same size."""
        features = [view(x) for view in self.views]
        features.append(self.mean(x).expand(-1, -1, *x.shape[-2:]))
        out: Tensor = self.dropout(self.project(torch.cat(features, dim=1)))
        return out


deeplabv3 = register("model", "deeplabv3")(DeepLabV3)
