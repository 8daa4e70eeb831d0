"""DeepLabV3 on MobileNetV2 for semantic segmentation, and MobileNetV2.

Chen et al., Rethinking Atrous Convolution for Semantic Image Segmentation, 2017, arXiv:1706.05587.

    features  MobileNetV2 without its last 1x1 layer: 320 channels, at 1/stride of the size
    ASPP      1x1, three dilated 3x3, and the mean over positions with a 1x1: 256 channels each,
              concatenated; then 1x1 to 256, dropout
    head      3x3 to 256, then 1x1 with bias to the classes, bilinear up to the image's size

The paper uses the rates 6, 12 and 18 at stride 16; LADD trains with ``stride=32, rates=[12, 24,
36]``.

Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, CVPR 2018, arXiv:1801.04381,
table 2, with BatchNorm or GroupNorm.

    block    1x1 to t times the channels, norm, relu6; 3x3 depthwise, norm, relu6; 1x1, norm;
             + x if the shape is unchanged
    network  3x3 stride 2 to 32, norm, relu6; 17 blocks; 1x1 to 1280, norm, relu6;
             mean over positions; linear layer

For a smaller output stride, the last strides become 1 and the following convolutions are dilated,
as in DeepLab. Convolutions start from Kaiming's normal distribution (fan-out), the linear layer
from a normal one with standard deviation 0.01.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from fedflat.errors import SettingError, choice, number
from fedflat.models.layers import ConvNorm, check_groups, pointwise, scale_width
from fedflat.models.spec import ModelSpec, image
from fedflat.registry.specs import register

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, number of blocks, and stride of the first block."""
STRIDES = (8, 16, 32)


@dataclass(frozen=True, repr=False)
class MobileNetV2(ModelSpec):
    """MobileNetV2: seventeen inverted residual blocks, for images of 32x32 pixels or more.

    >>> sum(p.numel() for p in mobilenetv2().build((3, 224, 224), 1000).parameters())
    3504872
    """

    norm: str = "batch"
    """``"batch"`` or ``"group"``."""
    groups: int = 8
    """Groups of every GroupNorm; divides 8. BatchNorm ignores it."""
    width: float = 1.0
    """Factor of the channels of every layer; they are rounded to multiples of 8."""
    dropout: float = 0.2
    """Share of the last features that is dropped in training; 0 on Landmarks-User-160k."""

    def __post_init__(self) -> None:
        check_mobile("mobilenetv2", self.norm, self.groups, self.width)
        number("mobilenetv2", "dropout", self.dropout, low=0, high=1)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, _, _ = image("mobilenetv2", shape, classes, smallest=32)
        layers, last = trunk(channels, self.norm, self.groups, self.width)
        top = scale_width(1280, max(self.width, 1.0))
        layers["top"] = ConvNorm(last, top, 1, self.norm, self.groups, relu=nn.ReLU6)
        fc = nn.Linear(top, classes)
        nn.init.normal_(fc.weight, std=0.01)
        nn.init.zeros_(fc.bias)
        layers.update(
            mean=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            dropout=nn.Dropout(self.dropout),
            fc=fc,
        )
        return nn.Sequential(layers)


def check_mobile(owner: str, norm: str, groups: int, width: float) -> None:
    """Refuse settings that no such network can have."""
    choice(owner, "norm", norm, ["batch", "group"])
    check_groups(owner, groups)
    number(owner, "width", width, low=0, high=10, open_low=True)


def trunk(
    channels: int, norm: str, groups: int, width: float, output_stride: int = 32
) -> tuple[OrderedDict[str, nn.Module], int]:
    """The first convolution and the blocks by name, and the channels of the last one."""
    if output_stride not in STRIDES:
        raise SettingError(
            f"a network's output stride must be 8, 16 or 32, found {output_stride!r}."
        )
    before = scale_width(32, width)
    first = ConvNorm(channels, before, 3, norm, groups, stride=2, relu=nn.ReLU6)
    layers: OrderedDict[str, nn.Module] = OrderedDict(first=first)
    reached, dilation = 2, 1
    for i, (expansion, wide, blocks, stride) in enumerate(STAGES, start=1):
        after, stage = scale_width(wide, width), []
        for block in range(blocks):
            step = stride if block == 0 else 1
            block_dilation = dilation
            if reached * step > output_stride:
                dilation, step = dilation * step, 1
            reached *= step
            stage.append(Inverted(before, after, expansion, step, block_dilation, norm, groups))
            before = after
        layers[f"stage{i}"] = nn.Sequential(*stage)
    return layers, before


class Inverted(nn.Module):
    """An inverted residual block: wide inside, narrow outside, linear at its end."""

    def __init__(
        self,
        before: int,
        after: int,
        expansion: int,
        stride: int,
        dilation: int,
        norm: str,
        groups: int,
    ) -> None:
        super().__init__()
        inside = before * expansion
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        if expansion != 1:
            layers["expand"] = ConvNorm(before, inside, 1, norm, groups, relu=nn.ReLU6)
        layers["depthwise"] = ConvNorm(
            inside,
            inside,
            3,
            norm,
            groups,
            stride=stride,
            dilation=dilation,
            fans=inside,
            relu=nn.ReLU6,
        )
        layers["project"] = ConvNorm(inside, after, 1, norm, groups, relu=None)
        self.layers = nn.Sequential(layers)
        self.residual = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return x + y if self.residual else y


mobilenetv2 = register("model", "mobilenetv2")(MobileNetV2)


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
