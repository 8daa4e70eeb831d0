"""LEAF's network for CelebA (Caldas et al., LEAF: A Benchmark for Federated Settings, 2018).

LEAF's FEMNIST network is ``mcmahan_cnn(hidden=2048)``.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from torch import nn

from fedflat.models.inputs import image
from fedflat.models.spec import ModelSpec
from fedflat.registry.specs import register

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
