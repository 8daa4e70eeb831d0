"""Image descriptors of length one for retrieval: convolutions and generalized-mean pooling.

Radenovic et al., Fine-tuning CNN Image Retrieval with No Human Annotation, TPAMI 2019,
arXiv:1711.02512:

    GeM(x) = (mean over positions of max(x, 1e-6)^p)^(1/p)

with one ``p`` for all channels, learnt, 3 at the start: 1 is the mean, infinity the maximum.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from fedflat.errors import MOST_AT_ONCE, choice, number
from fedflat.models.inputs import divides, image
from fedflat.models.spec import ModelSpec
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
