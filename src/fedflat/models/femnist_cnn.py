"""The network for FEMNIST's characters of Reddi et al., Adaptive Federated Optimization, ICLR 2021,
and FedSeq."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from torch import nn

from fedflat.models.inputs import image
from fedflat.models.simple import head
from fedflat.models.spec import ModelSpec
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class FemnistCnn(ModelSpec):
    """Two 3x3 convolutions of 32 and 64 channels, one max-pool, dropout, linear layers of 128 and
    ``classes``.

    A quarter of the pooled numbers and half of the 128 are dropped in training. Convolutions are
    not padded: 28x28 pixels end as 12x12, and the first linear layer reads 9216 numbers. Images
    have 6x6 pixels or more.

    >>> sum(p.numel() for p in femnist_cnn().build((1, 28, 28), 62).parameters())
    1206590
    """

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A freshly initialised module for images of ``shape`` and ``classes`` outputs."""
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
