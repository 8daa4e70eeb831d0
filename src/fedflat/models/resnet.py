"""Residual networks for small images, with GroupNorm or BatchNorm.

He et al., Deep Residual Learning for Image Recognition, CVPR 2016, arXiv:1512.03385. Wu and He,
Group Normalization, ECCV 2018, arXiv:1803.08494.

    block      y = relu( norm(conv(relu(norm(conv(x))))) + shortcut(x) ),   3x3 without bias
    network    3x3 convolution, norm, relu, blocks, mean over positions, linear layer

The shortcut is the identity or, where a block halves the image and doubles the channels, a 1x1
convolution of stride 2 and a norm (option B of the paper). He et al. use option A (subsample, pad
with zero channels) for ResNet-20. Option B has 2,752 more parameters and lets one block serve both
networks.

Convolutions start from Kaiming's normal distribution (fan-out, ReLU), norms from weight 1 and bias
0, the linear layer from PyTorch's default. BatchNorm has momentum 0.1.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from torch import Tensor, nn

from fedflat.errors import choice
from fedflat.models.spec import ModelSpec, divides, image
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class ResNet20(ModelSpec):
    """ResNet-20 for CIFAR: three stages of 16, 32 and 64 channels, three blocks each.

    Images have 4x4 pixels or more.

    >>> sum(p.numel() for p in resnet20().build((3, 32, 32), 10).parameters())
    272474
    """

    norm: str = "group"
    """``"group"`` or ``"batch"``."""
    groups: int = 2
    """Groups of every GroupNorm; divides 16. BatchNorm ignores it."""

    def __post_init__(self) -> None:
        choice("resnet20", "norm", self.norm, ["group", "batch"])
        divides("resnet20", self.groups, 16)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, _, _ = image("resnet20", shape, classes, smallest=4)
        return _network(channels, (16, 32, 64), 3, classes, self.norm, self.groups)


@dataclass(frozen=True, repr=False)
class ResNet18(ModelSpec):
    """ResNet-18 for small images: four stages of 64, 128, 256 and 512 channels, two blocks each.

    The first convolution is 3x3 with stride 1 and no max-pool follows, as is usual for CIFAR.
    Images have 8x8 pixels or more, with the large stem 32x32.

    >>> sum(p.numel() for p in resnet18().build((3, 32, 32), 10).parameters())
    11173962
    """

    norm: str = "group"
    """``"group"`` or ``"batch"``."""
    groups: int = 2
    """Groups of every GroupNorm; divides 64. BatchNorm ignores it."""
    stem: str = "small"
    """``"small"``: the 3x3 convolution. ``"large"``: a 7x7 convolution with stride 2 and a 3x3
    max-pool with stride 2, as in torchvision and in FL-Simulator, which uses it for CIFAR too."""

    def __post_init__(self) -> None:
        choice("resnet18", "norm", self.norm, ["group", "batch"])
        choice("resnet18", "stem", self.stem, ["small", "large"])
        divides("resnet18", self.groups, 64)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        smallest = 8 if self.stem == "small" else 32
        channels, _, _ = image("resnet18", shape, classes, smallest=smallest)
        stages = (64, 128, 256, 512)
        return _network(channels, stages, 2, classes, self.norm, self.groups, self.stem)


class ResNetBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut; each ReLU is its own module."""

    recorded_as = "Block"
    """The class name in the digests of run folders."""

    def __init__(self, before: int, after: int, norm: str, groups: int) -> None:
        super().__init__()
        stride = 1 if before == after else 2
        self.conv1 = _conv(before, after, 3, stride)
        self.norm1 = _norm(after, norm, groups)
        self.relu1 = nn.ReLU()
        self.conv2 = _conv(after, after, 3, 1)
        self.norm2 = _norm(after, norm, groups)
        self.shortcut: nn.Module = nn.Identity()
        if before != after:
            self.shortcut = nn.Sequential(
                OrderedDict(conv=_conv(before, after, 1, stride), norm=_norm(after, norm, groups))
            )
        self.relu2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu1(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        out: Tensor = self.relu2(y + self.shortcut(x))
        return out


def _network(
    channels: int,
    stages: tuple[int, ...],
    blocks: int,
    classes: int,
    norm: str,
    groups: int,
    stem: str = "small",
) -> nn.Module:
    width = stages[0]
    size, stride = (3, 1) if stem == "small" else (7, 2)
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv=_conv(channels, width, size, stride), norm=_norm(width, norm, groups), relu=nn.ReLU()
    )
    if stem == "large":
        layers["pool"] = nn.MaxPool2d(3, stride=2, padding=1)
    for i, after in enumerate(stages, start=1):
        stage = [ResNetBlock(width, after, norm, groups)]
        stage += [ResNetBlock(after, after, norm, groups) for _ in range(blocks - 1)]
        layers[f"stage{i}"] = nn.Sequential(*stage)
        width = after
    layers.update(mean=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc=nn.Linear(width, classes))
    return nn.Sequential(layers)


def _conv(before: int, after: int, size: int, stride: int) -> nn.Conv2d:
    conv = nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv


def _norm(channels: int, norm: str, groups: int) -> nn.Module:
    return (
        nn.BatchNorm2d(channels, momentum=0.1)
        if norm == "batch"
        else nn.GroupNorm(groups, channels)
    )


resnet20 = register("model", "resnet20")(ResNet20)
resnet18 = register("model", "resnet18")(ResNet18)
