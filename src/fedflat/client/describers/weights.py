"""The weights of a model's linear layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedflat.errors import SettingError, choice

LAYERS = ("all", "last", "last_two")


def classifier_weights(module: nn.Module, layers: str = "all") -> Tensor:
    """The weights, not the biases, of linear layers as one vector.

    layers
        ``"all"``: in the order of the module. ``"last"``. ``"last_two"``: the last one first.

    >>> classifier_weights(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 4))).shape
    torch.Size([14])
    """
    choice("classifier_weights", "layers", layers, LAYERS)
    found = [part.weight.detach().reshape(-1) for part in module.modules() if isinstance(part, nn.Linear)]
    if not found:
        raise SettingError(
            "classifier_weights: this model has no linear layer to describe clients by. Use another description, such "
            "as psi='confidence'."
        )
    return torch.cat({"all": found, "last": found[-1:], "last_two": found[:-3:-1]}[layers])
