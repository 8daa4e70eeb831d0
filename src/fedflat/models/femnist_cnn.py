"""The FEMNIST network of Reddi et al., Adaptive Federated Optimization, ICLR 2021, and FedSeq."""

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
