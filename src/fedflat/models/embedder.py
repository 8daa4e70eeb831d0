"""Image descriptors of length one for retrieval: a network and generalized-mean pooling.

Radenovic et al., Fine-tuning CNN Image Retrieval with No Human Annotation, TPAMI 2019,
arXiv:1711.02512:

    GeM(x) = (mean over positions of max(x, 1e-6)^p)^(1/p)

with one ``p`` for all channels, learnt, 3 at the start: 1 is the mean, infinity the maximum.

``resnet18_gem`` is ResNet-18 for ImageNet (He et al., CVPR 2016), cut after a stage. FedVPR cuts it
after the third, as does Berton et al., Deep Visual Geo-localization Benchmark, CVPR 2022.

    conv1, bn1     7x7 convolution, 64 channels, stride 2; BatchNorm; ReLU
                   max-pool 3x3, stride 2
    layer1..4      two basic blocks each, of 64, 128, 256 and 512 channels; stride 2 from layer2 on
    pool           GeM over positions, then length one

Names of parameters and buffers are those of torchvision, so that published weights can be loaded:
``--init "from_weights('resnet18.pth', keep='matching')"`` leaves out the stages that are cut, and
the classifier. Without weights the network starts at random.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from fedflat.errors import MOST_AT_ONCE, choice, number
from fedflat.models.spec import ModelSpec, divides, image
from fedflat.registry.specs import register

ORDERS = ("after_pool", "before_pool")


@dataclass(frozen=True, repr=False)
class Embedder(ModelSpec):
    """A descriptor of length one for retrieval: four convolutions with GroupNorm, GeM pooling.

    Its size is the number of outputs of the task. Images have 8x8 pixels or more.

    >>> net = embedder(width=8).build((3, 64, 128), 32)
    >>> out = net(torch.rand(2, 3, 64, 128))
    >>> out.shape, out.norm(dim=1).allclose(torch.ones(2))
    (torch.Size([2, 32]), True)
    """

    width: int = 16
    """Channels of the first convolution; the next two have twice and four times as many."""
    groups: int = 4
    """Groups of every GroupNorm; divides the width."""
    l2: str = "after_pool"
    """What is normalized to length one: the pooled descriptor, or ``"before_pool"`` each position.
    """

    def __post_init__(self) -> None:
        number("embedder", "width", self.width, low=1, high=MOST_AT_ONCE, whole=True)
        divides("embedder", self.groups, self.width)
        choice("embedder", "l2", self.l2, list(ORDERS))

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A new module for images of ``shape`` and descriptors of ``classes`` numbers."""
        channels, _, _ = image("embedder", shape, classes, smallest=8)
        return EmbedderNet(channels, classes, self.width, self.groups, self.l2)


class GeM(nn.Module):
    """The generalized mean over positions with a trainable exponent ``p``.

    >>> round(GeM()(torch.tensor([1.0, 2, 3, 4]).view(1, 1, 2, 2)).item(), 6)
    2.924018
    """

    def __init__(self) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.tensor([3.0]))

    def forward(self, x: Tensor) -> Tensor:
        """From (images, channels, height, width) to (images, channels)."""
        return (x.clamp(min=1e-6) ** self.p).mean((-2, -1)) ** (1 / self.p)


class EmbedderNet(nn.Module):
    """The network; the last convolution is its last layer."""

    recorded_as = "Net"
    """The class name in the digests of run folders."""

    def __init__(self, channels: int, outputs: int, width: int, groups: int, order: str) -> None:
        super().__init__()
        self.order = order
        self.pool = GeM()
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for i, (before, after) in enumerate(
            [(channels, width), (width, 2 * width), (2 * width, 4 * width)], start=1
        ):
            layers[f"conv{i}"] = nn.Conv2d(
                before, after, kernel_size=3, stride=2, padding=1, bias=False
            )
            layers[f"norm{i}"] = nn.GroupNorm(groups, after)
            layers[f"relu{i}"] = nn.ReLU()
        self.trunk = nn.Sequential(layers)
        self.describe = nn.Conv2d(4 * width, outputs, kernel_size=3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Descriptors (images, outputs)."""
        x = self.relu(self.describe(self.trunk(x)))
        if self.order == "before_pool":
            out: Tensor = self.pool(normalize(x, dim=-3))
            return out
        return normalize(self.pool(x), dim=-1)


embedder = register("model", "embedder")(Embedder)


STAGES = (64, 128, 256, 512)


@dataclass(frozen=True, repr=False)
class ResNet18GeM(ModelSpec):
    """ResNet-18 in its ImageNet form, cut after stage ``cut``, with GeM pooling.

    A descriptor has 64, 128, 256 or 512 numbers, whatever the width of the task. Images have 32x32
    pixels or more.

    >>> net = resnet18_gem().build((3, 64, 64), 64)
    >>> sum(p.numel() for p in net.parameters())
    2782785
    """

    cut: int = 3
    """Last stage that is kept, 1 to 4."""
    l2: str = "after_pool"
    """What is normalized to length one: the pooled descriptor, or ``"before_pool"`` each position,
    as in the benchmark."""

    def __post_init__(self) -> None:
        number("resnet18_gem", "cut", self.cut, low=1, high=len(STAGES), whole=True)
        choice("resnet18_gem", "l2", self.l2, list(ORDERS))

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A new module for images of ``shape``; ``classes`` is not used."""
        channels, _, _ = image("resnet18_gem", shape, classes, smallest=32)
        return ResNet18GeMNet(channels, STAGES[: self.cut], self.l2)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, named as in torchvision."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        stride = 1 if before == after else 2
        self.conv1 = _conv(before, after, 3, stride)
        self.bn1 = nn.BatchNorm2d(after)
        self.relu1 = nn.ReLU()
        self.conv2 = _conv(after, after, 3, 1)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample: nn.Module = nn.Identity()
        if before != after:
            self.downsample = nn.Sequential(_conv(before, after, 1, 2), nn.BatchNorm2d(after))
        self.relu2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        y = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        out: Tensor = self.relu2(y + self.downsample(x))
        return out


class ResNet18GeMNet(nn.Module):
    """The network; the last convolution is its last layer."""

    def __init__(self, channels: int, stages: tuple[int, ...], order: str) -> None:
        super().__init__()
        self.order = order
        self.pool = GeM()
        self.conv1 = _conv(channels, STAGES[0], 7, 2)
        self.bn1 = nn.BatchNorm2d(STAGES[0])
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        before = STAGES[0]
        self.stages: list[str] = []
        for number_of_stage, after in enumerate(stages, start=1):
            name = f"layer{number_of_stage}"
            self.add_module(
                name, nn.Sequential(BasicBlock(before, after), BasicBlock(after, after))
            )
            self.stages.append(name)
            before = after
        self.head_layers = (f"{self.stages[-1]}.1.conv2",)

    def forward(self, x: Tensor) -> Tensor:
        """Descriptors (images, channels of the last stage)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for name in self.stages:
            x = self.get_submodule(name)(x)
        if self.order == "before_pool":
            out: Tensor = self.pool(normalize(x, dim=-3))
            return out
        return normalize(self.pool(x), dim=-1)


def _conv(before: int, after: int, size: int, stride: int) -> nn.Conv2d:
    conv = nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv


resnet18_gem = register("model", "resnet18_gem")(ResNet18GeM)
