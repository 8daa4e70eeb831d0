"""The weights of a model's linear layers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedflat.client.describers.trained import Trained
from fedflat.client.learner import Learner
from fedflat.client.training import ClientWork
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.errors import SettingError, choice
from fedflat.registry.specs import register

LAYERS = ("all", "last", "last_two")


def classifier_weights(module: nn.Module, layers: str = "all") -> Tensor:
    """Return the weights, not the biases, of linear layers as one vector.

    layers
        ``"all"``: in the order of the module. ``"last"``: the last one only. ``"last_two"``: the
        last two, the last one first.

    >>> classifier_weights(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 4))).shape
    torch.Size([14])
    """
    choice("classifier_weights", "layers", layers, LAYERS)
    found = [
        part.weight.detach().reshape(-1) for part in module.modules() if isinstance(part, nn.Linear)
    ]
    if not found:
        raise SettingError(
            "classifier_weights: this model has no linear layer to describe clients by. Use "
            "another description, such as psi='confidence'."
        )
    return torch.cat({"all": found, "last": found[-1:], "last_two": found[:-3:-1]}[layers])


@register("describer", "classifier_weights")
@dataclass(frozen=True, repr=False)
class ClassifierWeights(Trained):
    """The weights of linear layers of a model that the client trained, compared by principal
    components.

    epochs
        Number of epochs that the client trains.
    layers
        ``"all"``, ``"last"`` or ``"last_two"``: which linear layers.
    """

    components = True
    reveals = "the server gets linear layers that every client has trained on its own data alone"

    epochs: int = 10
    layers: str = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("classifier_weights", "layers", self.layers, LAYERS)

    def check(self, fed: Federation, learner: Learner, public: ClientData | None) -> None:
        """Refuse a model without linear layers."""
        classifier_weights(learner.flat.module, self.layers)

    def describe(self, client: ClientWork) -> Tensor:
        """Train, and return the weights."""
        self.model(client)
        return classifier_weights(client.job.learner.flat.module, self.layers).clone()
