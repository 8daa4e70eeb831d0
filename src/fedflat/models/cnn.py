"""Plain convolutional networks of the papers, initialized with PyTorch's defaults.

    cnn            FedSAM, FedDyn, FedGloSS, MAN on CIFAR-10 and CIFAR-100
    fsa_cnn        FedFSA on FMNIST, CIFAR-10, CIFAR-100 and Tiny-ImageNet
    mcmahan_cnn    McMahan et al. on MNIST; WiMA on FEMNIST; LEAF on FEMNIST (hidden=2048)
    tiny_convnet   MAN on Tiny-ImageNet
    femnist_cnn    Reddi et al., Adaptive Federated Optimization, ICLR 2021, and FedSeq
    leaf_celeba    Caldas et al., LEAF: A Benchmark for Federated Settings, 2018

Every non-linearity is its own module, so that hooks can read the output of each hidden layer.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from torch import nn

from fedflat.errors import MOST_AT_ONCE, SettingError, number
from fedflat.models.simple import head
from fedflat.models.spec import ModelSpec, divides, image
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class Cnn(ModelSpec):
    """The CIFAR CNN: two 5x5 convolutions of 64 channels, linear layers of 384 and 192.

    Convolutions are not padded and each is followed by a 2x2 max-pool, so 32x32 pixels become 5x5
    and the first linear layer has 1600 inputs; its width follows the image. Images have 16x16
    pixels or more.

    >>> sum(p.numel() for p in cnn().build((3, 32, 32), 10).parameters())
    797962
    """

    pool_first: bool = True
    """Max-pool before the ReLU.

    Both orders compute the same function, and this one is cheaper. MAN uses the ReLU first (False),
    because its penalty needs the ReLU's output before pooling.
    """

    def __post_init__(self) -> None:
        if not isinstance(self.pool_first, bool):
            raise SettingError(f"cnn: pool_first must be True or False, found {self.pool_first!r}.")

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return _five_layers("cnn", shape, classes, hidden=(384, 192), pool_first=self.pool_first)


@dataclass(frozen=True, repr=False)
class FsaCnn(ModelSpec):
    """FedFSA's CNN: like ``cnn()``, with linear layers of 1024, 1024 and ``classes``.

    >>> sum(p.numel() for p in fsa_cnn().build((3, 32, 32), 10).parameters())
    2806602
    """

    channels: tuple[int, int] = (64, 64)
    """Channels of the two convolutions. The code of FedFSA has ``[4, 12]`` on Fashion-MNIST and
    ``[32, 32]`` on Tiny-ImageNet."""
    hidden: tuple[int, int] = (1024, 1024)
    """Outputs of the first two linear layers. The code of FedFSA has ``[512, 1024]`` on
    Tiny-ImageNet."""

    def __post_init__(self) -> None:
        for name, what in (("channels", "convolution"), ("hidden", "linear layer")):
            widths = getattr(self, name)
            if not isinstance(widths, list | tuple) or len(widths) != 2:
                raise SettingError(
                    f"fsa_cnn: {name} must be a list of two numbers, one for each {what}, "
                    f"found {widths!r}."
                )
            for width in widths:
                each = "each of the channels" if name == "channels" else "each hidden width"
                number("fsa_cnn", each, width, low=1, high=MOST_AT_ONCE, whole=True)
            object.__setattr__(self, name, tuple(widths))

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return _five_layers("fsa_cnn", shape, classes, hidden=self.hidden, wide=self.channels)


def _five_layers(
    owner: str,
    shape: tuple[int, ...],
    classes: int,
    *,
    hidden: tuple[int, ...],
    wide: tuple[int, int] = (64, 64),
    pool_first: bool = True,
) -> nn.Module:
    before, height, width = image(owner, shape, classes, smallest=16)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for i, channels in enumerate(wide, start=1):
        layers[f"conv{i}"] = nn.Conv2d(before, channels, kernel_size=5)
        before = channels
        pool, relu = (f"pool{i}", nn.MaxPool2d(2)), (f"relu{i}", nn.ReLU())
        layers.update((pool, relu) if pool_first else (relu, pool))
        height, width = (height - 4) // 2, (width - 4) // 2
    layers["flatten"] = nn.Flatten()
    layers.update(head(before * height * width, hidden, classes, first_relu=3))
    return nn.Sequential(layers)


@dataclass(frozen=True, repr=False)
class McMahanCnn(ModelSpec):
    """Two padded 5x5 convolutions of 32 and 64 channels with 2x2 max-pools, a linear layer of 512.

    McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data,
    AISTATS 2017. The first of the two numbers below is theirs. Images have 4x4 pixels or more.

    >>> [sum(p.numel() for p in mcmahan_cnn().build((1, 28, 28), c).parameters()) for c in (10, 62)]
    [1663370, 1690046]
    """

    hidden: int = 512
    """Outputs of the first linear layer. LEAF's FEMNIST network has 2048."""

    def __post_init__(self) -> None:
        number("mcmahan_cnn", "hidden", self.hidden, low=1, high=MOST_AT_ONCE, whole=True)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        before, height, width = image("mcmahan_cnn", shape, classes, smallest=4)
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for i, channels in enumerate((32, 64), start=1):
            layers[f"conv{i}"] = nn.Conv2d(before, channels, kernel_size=5, padding=2)
            layers[f"relu{i}"] = nn.ReLU()
            layers[f"pool{i}"] = nn.MaxPool2d(2)
            before, height, width = channels, height // 2, width // 2
        layers["flatten"] = nn.Flatten()
        layers.update(head(before * height * width, (self.hidden,), classes, first_relu=3))
        return nn.Sequential(layers)


@dataclass(frozen=True, repr=False)
class TinyConvnet(ModelSpec):
    """MAN's ConvNet: three 3x3 convolutions of 64 channels, linear layers of 512 and 384.

    Each convolution is followed by GroupNorm, ReLU and a 2x2 max-pool. The paper does not state the
    padding. We pad by one pixel, which keeps the size: 64x64 pixels become 8x8, and the first
    linear layer has the 64 * 8 * 8 = 4096 inputs of the paper's table; without padding it would
    have 64 * 6 * 6 = 2304. Images have 8x8 pixels or more.

    >>> net = tiny_convnet().build((3, 64, 64), 200)
    >>> net.fc1, sum(p.numel() for p in net.parameters())
    (Linear(in_features=4096, out_features=512, bias=True), 2447688)
    """

    groups: int = 4
    """Groups of every GroupNorm; divides 64."""

    def __post_init__(self) -> None:
        divides("tiny_convnet", self.groups, 64)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, height, width = image("tiny_convnet", shape, classes, smallest=8)
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for i, before in enumerate((channels, 64, 64), start=1):
            layers[f"conv{i}"] = nn.Conv2d(before, 64, kernel_size=3, padding=1)
            layers[f"norm{i}"] = nn.GroupNorm(self.groups, 64)
            layers[f"relu{i}"] = nn.ReLU()
            layers[f"pool{i}"] = nn.MaxPool2d(2)
        layers["flatten"] = nn.Flatten()
        layers.update(head(64 * (height // 8) * (width // 8), (512, 384), classes, first_relu=4))
        return nn.Sequential(layers)


cnn = register("model", "cnn")(Cnn)
fsa_cnn = register("model", "fsa_cnn")(FsaCnn)
mcmahan_cnn = register("model", "mcmahan_cnn")(McMahanCnn)
tiny_convnet = register("model", "tiny_convnet")(TinyConvnet)


@dataclass(frozen=True, repr=False)
class FemnistCnn(ModelSpec):
    """Two 3x3 convolutions of 32 and 64 channels, max-pool, dropout, a linear layer of 128.

    In training a quarter of the pooled values and half of the 128 are dropped. Convolutions are not
    padded: 28x28 pixels become 12x12, and the first linear layer has 9216 inputs. Images have 6x6
    pixels or more.

    >>> sum(p.numel() for p in femnist_cnn().build((1, 28, 28), 62).parameters())
    1206590
    """

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, height, width = image("femnist_cnn", shape, classes, smallest=6)
        layers: OrderedDict[str, nn.Module] = OrderedDict(
            conv1=nn.Conv2d(channels, 32, kernel_size=3),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(32, 64, kernel_size=3),
            relu2=nn.ReLU(),
            pool=nn.MaxPool2d(2),
            dropout1=nn.Dropout(0.25),
            flatten=nn.Flatten(),
        )
        for name, layer in head(
            64 * ((height - 4) // 2) * ((width - 4) // 2), (128,), classes, first_relu=3
        ).items():
            layers[name] = layer
            if name == "relu3":
                layers["dropout2"] = nn.Dropout(0.5)
        return nn.Sequential(layers)


femnist_cnn = register("model", "femnist_cnn")(FemnistCnn)


CHANNELS, BLOCKS = 32, 4


@dataclass(frozen=True, repr=False)
class LeafCelebA(ModelSpec):
    """Four 3x3 convolutions of 32 channels, each with BatchNorm, max-pool and ReLU; one linear
    layer.

    BatchNorm always uses the statistics of the batch, in tests too: LEAF's code never switches
    them. There are no running statistics. Odd sizes are padded before pooling: 84x84 pixels become
    6x6.

    >>> sum(p.numel() for p in leaf_celeba().build((3, 84, 84), 2).parameters())
    31202
    """

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, height, width = image("leaf_celeba", shape, classes, smallest=1)
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for i in range(1, BLOCKS + 1):
            layers[f"conv{i}"] = nn.Conv2d(channels, CHANNELS, 3, padding=1)
            layers[f"norm{i}"] = nn.BatchNorm2d(CHANNELS, eps=1e-3, track_running_stats=False)
            layers[f"pool{i}"] = nn.MaxPool2d(2, ceil_mode=True)
            layers[f"relu{i}"] = nn.ReLU()
            channels, height, width = CHANNELS, -(-height // 2), -(-width // 2)
        layers["flatten"] = nn.Flatten()
        layers["fc"] = nn.Linear(CHANNELS * height * width, classes)
        return nn.Sequential(layers)


leaf_celeba = register("model", "leaf_celeba")(LeafCelebA)
