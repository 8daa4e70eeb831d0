"""BiSeNetV2: semantic segmentation with a detail branch and a semantic branch.

Yu et al., BiSeNet V2: Bilateral Network with Guided Aggregation for Real-time Semantic
Segmentation, IJCV 2021, arXiv:2004.02147, tables 1 and 2.

    detail       64 s2, 64 | 64 s2, 64, 64 | 128 s2, 128, 128
    stem         16 s2; left 1x1 to 8, 16 s2; right max-pool 3 s2; concatenated; 16
    gather       3x3 c; depthwise to 6c; 1x1 to c; + x
    gather s2    3x3 c; depthwise s2 to 6c; depthwise; 1x1 to o; + (depthwise s2, 1x1 to o)
    semantic     stem | s2 to 32, gather | s2 to 64, gather | s2 to 128, 3 gather | context
    context      mean over positions, norm, 1x1; + x; 3x3
    aggregation  3x3 of  l1 sigmoid(up r1) + up(l2 sigmoid(r2))
    head         3x3, dropout, 1x1 with bias to up^2 times the classes, pixel shuffle

In training the module gives five outputs, the main one first, then those of four auxiliary heads;
in evaluation, or without auxiliary heads, the main one alone. Images whose sides are no multiples
of 32 are padded with zeros to the right and below, and the scores are cut to the image.

The last norm of each gathering branch starts with weight 0, so that a block starts as its shortcut.
28 of the 58 norms are called "bn", as in the code of FedDrive, whose SiLoBN keeps only those
(``only_named="bn"``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedflat.errors import choice, flag, number
from fedflat.models.layers import (
    ConvNorm,
    check_groups,
    norm,
    pad_to_multiple,
    pointwise,
    scale_width,
)
from fedflat.models.spec import ModelSpec, image
from fedflat.registry.specs import register

BN = "bn"
Wide = Callable[[int], int]
"""Maps a number of channels in the paper to that of this network."""


def detail(channels: int, wide: Wide, kind: str, groups: int) -> nn.Sequential:
    """The detail branch: few layers, many channels, 1/8 of the image's size."""
    rows = ((64, 2), (64, 1), (64, 2), (64, 1), (64, 1), (128, 2), (128, 1), (128, 1))
    layers, before = [], channels
    for count, stride in rows:
        layers.append(ConvNorm(before, wide(count), 3, kind, groups, stride=stride, called=BN))
        before = wide(count)
    return nn.Sequential(*layers)


def semantic_stages(channels: int, wide: Wide, kind: str, groups: int) -> nn.ModuleList:
    """The semantic branch: the stem, three stages and the context; 1/32 of the image's size."""
    stages: list[nn.Module] = [Stem(channels, wide, kind, groups)]
    for before, after, more in ((16, 32, 1), (32, 64, 1), (64, 128, 3)):
        blocks: list[nn.Module] = [GatherDown(wide(before), wide(after), kind, groups)]
        blocks += [Gather(wide(after), kind, groups) for _ in range(more)]
        stages.append(nn.Sequential(*blocks))
    return nn.ModuleList([*stages, Context(wide(128), kind, groups)])


class Stem(nn.Module):
    """A quarter of the size, by convolutions and by pooling in parallel."""

    def __init__(self, channels: int, wide: Wide, kind: str, groups: int) -> None:
        super().__init__()
        c = wide(16)
        self.first = ConvNorm(channels, c, 3, kind, groups, stride=2, called=BN)
        self.left = nn.Sequential(
            ConvNorm(c, wide(8), 1, kind, groups, called=BN),
            ConvNorm(wide(8), c, 3, kind, groups, stride=2, called=BN),
        )
        self.right = nn.MaxPool2d(3, stride=2, padding=1)
        self.last = ConvNorm(2 * c, c, 3, kind, groups, called=BN)

    def forward(self, x: Tensor) -> Tensor:
        """The output, with 16 channels."""
        x = self.first(x)
        out: Tensor = self.last(torch.cat([self.left(x), self.right(x)], dim=1))
        return out


def _zero_weight(layer: ConvNorm) -> ConvNorm:
    """The layer with a norm whose weight starts at 0."""
    last = layer.norm
    assert isinstance(last, nn.BatchNorm2d | nn.GroupNorm)
    nn.init.zeros_(last.weight)
    return layer


class Gather(nn.Module):
    """Gather and expand, same size."""

    def __init__(self, c: int, kind: str, groups: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            OrderedDict(
                conv=ConvNorm(c, c, 3, kind, groups, called=BN),
                expand=ConvNorm(c, 6 * c, 3, kind, groups, fans=c),
                project=_zero_weight(ConvNorm(6 * c, c, 1, kind, groups, relu=None)),
            )
        )
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.layers(x) + x)
        return out


class GatherDown(nn.Module):
    """Gather and expand, half the size."""

    def __init__(self, c: int, after: int, kind: str, groups: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            OrderedDict(
                conv=ConvNorm(c, c, 3, kind, groups, called=BN),
                expand=ConvNorm(c, 6 * c, 3, kind, groups, stride=2, fans=c, relu=None),
                depthwise=ConvNorm(6 * c, 6 * c, 3, kind, groups, fans=6 * c),
                project=_zero_weight(ConvNorm(6 * c, after, 1, kind, groups, relu=None)),
            )
        )
        self.shortcut = nn.Sequential(
            OrderedDict(
                depthwise=ConvNorm(c, c, 3, kind, groups, stride=2, fans=c, relu=None),
                project=ConvNorm(c, after, 1, kind, groups, relu=None),
            )
        )
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.layers(x) + self.shortcut(x))
        return out


class Context(nn.Module):
    """The mean of the whole image, added to every position."""

    def __init__(self, c: int, kind: str, groups: int) -> None:
        super().__init__()
        self.mean = nn.Sequential(
            OrderedDict(
                pool=nn.AdaptiveAvgPool2d(1),
                bn=norm(c, kind, groups),
                conv=ConvNorm(c, c, 1, kind, groups, called=BN),
            )
        )
        self.last = ConvNorm(c, c, 3, kind, groups, called=BN)

    def forward(self, x: Tensor) -> Tensor:
        """The branch's output."""
        out: Tensor = self.last(x + self.mean(x))
        return out


class Aggregation(nn.Module):
    """Each branch is weighted by a mask computed from the other."""

    def __init__(self, c: int, kind: str, groups: int) -> None:
        super().__init__()
        self.detail_keep = _separable(c, kind, groups)
        self.detail_down = nn.Sequential(
            OrderedDict(
                conv=ConvNorm(c, c, 3, kind, groups, stride=2, relu=None),
                pool=nn.AvgPool2d(3, stride=2, padding=1),
            )
        )
        self.semantic_up = ConvNorm(c, c, 3, kind, groups, relu=None)
        self.semantic_keep = _separable(c, kind, groups)
        self.up = nn.Upsample(scale_factor=4, mode="bilinear", align_corners=True)
        self.last = ConvNorm(c, c, 3, kind, groups)

    def forward(self, detail: Tensor, semantic: Tensor) -> Tensor:
        """Both branches combined, 1/8 of the image's size."""
        large = self.detail_keep(detail) * self.up(self.semantic_up(semantic)).sigmoid()
        small = self.detail_down(detail) * self.semantic_keep(semantic).sigmoid()
        out: Tensor = self.last(large + self.up(small))
        return out


def _separable(c: int, kind: str, groups: int) -> nn.Sequential:
    last = nn.Conv2d(c, c, 1, bias=False)
    nn.init.kaiming_normal_(last.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(
        OrderedDict(depthwise=ConvNorm(c, c, 3, kind, groups, fans=c, relu=None), conv=last)
    )


class Head(nn.Sequential):
    """Scores at every pixel; a pixel shuffle enlarges by ``up``."""

    def __init__(
        self,
        before: int,
        inside: int,
        classes: int,
        up: int,
        dropout: float,
        kind: str,
        groups: int,
    ) -> None:
        super().__init__(
            OrderedDict(
                conv=ConvNorm(before, inside, 3, kind, groups, called=BN),
                dropout=nn.Dropout(dropout),
                scores=pointwise(inside, classes * up * up),
                shuffle=nn.PixelShuffle(up),
            )
        )


STRIDE = 32


@dataclass(frozen=True, repr=False)
class BiSeNetV2(ModelSpec):
    """BiSeNetV2: class scores at every pixel, for images of 32x32 pixels or more.

    >>> sum(p.numel() for p in bisenetv2().build((3, 64, 64), 19).parameters())
    8196416
    """

    auxiliary: bool = True
    """Four auxiliary heads, which are trained too but not used in evaluation."""
    norm: str = "batch"
    """``"batch"`` or ``"group"``."""
    groups: int = 8
    """Groups of every GroupNorm; divides 8. BatchNorm ignores it."""
    width: float = 1.0
    """Factor of the channels of every layer; they are rounded to multiples of 8."""
    dropout: float = 0.1
    """Dropout rate of every head, in training."""

    def __post_init__(self) -> None:
        flag("bisenetv2", "auxiliary", self.auxiliary)
        choice("bisenetv2", "norm", self.norm, ["batch", "group"])
        check_groups("bisenetv2", self.groups)
        number("bisenetv2", "width", self.width, low=0, high=10, open_low=True)
        number("bisenetv2", "dropout", self.dropout, low=0, high=1)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, _, _ = image("bisenetv2", shape, classes, smallest=32)
        return Bilateral(self, channels, classes)


class Bilateral(nn.Module):
    """Both branches, their aggregation, and the heads."""

    head_layers = ("auxiliary", "head")

    def __init__(self, spec: BiSeNetV2, channels: int, classes: int) -> None:
        super().__init__()
        norm = (spec.norm, spec.groups)

        def wide(count: int) -> int:
            return scale_width(count, spec.width)

        self.detail = detail(channels, wide, *norm)
        self.semantic = semantic_stages(channels, wide, *norm)
        self.aggregation = Aggregation(wide(128), *norm)
        inside = wide(128)
        self.auxiliary = nn.ModuleList(
            Head(wide(count), inside, classes, up, spec.dropout, *norm)
            for count, up in zip((16, 32, 64, 128), (4, 8, 16, 32), strict=True)
            if spec.auxiliary
        )
        # The last layer is the classifier.
        self.head = Head(inside, wide(1024), classes, 8, spec.dropout, *norm)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Scores at every pixel; in training with auxiliary heads, those of all five heads."""
        height, width = x.shape[-2:]
        x = pad_to_multiple(x, STRIDE)
        stages = []
        y = x
        for stage in self.semantic:
            y = stage(y)
            stages.append(y)
        main = self.head(self.aggregation(self.detail(x), y))
        outputs = [main]
        if self.training:
            outputs += [
                head(features) for head, features in zip(self.auxiliary, stages, strict=False)
            ]
        cut = tuple(scores[..., :height, :width] for scores in outputs)
        return cut if len(cut) > 1 else cut[0]


bisenetv2 = register("model", "bisenetv2")(BiSeNetV2)
