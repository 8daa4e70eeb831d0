"""Distributions over classes: of a client's labels, and of its model's confidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.describers.public import check_public_set, examples_per_class
from fedflat.client.describers.trained import Trained
from fedflat.client.evaluate import outputs
from fedflat.client.learner import Learner
from fedflat.client.training import ClientWork
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.errors import SettingError, number
from fedflat.registry.specs import register


def confidence(probabilities: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Return a model's confidence in each class, as shares that sum to 1.

    It is the sum of the probabilities of the true class over the examples of the class.
    ``probabilities`` has the model's softmax of each public example in its rows, ``labels`` has
    their true classes.

    >>> sure = torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6], [0.8, 0.2]])
    >>> [round(share, 3) for share in confidence(sure, torch.tensor([0, 0, 1, 1]), 2).tolist()]
    [0.667, 0.333]
    """
    if probabilities.shape != (len(labels), classes) or not len(labels):
        raise SettingError(
            f"confidence: each of the {len(labels)} public examples must have {classes} "
            f"probabilities, found an array of shape {tuple(probabilities.shape)}."
        )
    true = probabilities.double().gather(1, labels[:, None])[:, 0]
    sums = torch.zeros(classes, dtype=torch.float64).index_add_(0, labels, true)
    if not bool(sums.sum() > 0):
        raise SettingError(
            "confidence: the model gives no true class of the public set a probability above 0. "
            "Train it at a lower rate, or for fewer epochs."
        )
    return sums / sums.sum()


@register("describer", "confidence")
@dataclass(frozen=True, repr=False)
class Confidence(Trained):
    """The confidence of a client's trained model in each class of the server's public set.

    epochs
        Number of epochs that the client trains.
    per_class
        Number of public examples of each class that are used, if there are as many.
    """

    uses_data = True
    gives_distribution = True
    reveals = "the server gets a model that every client has trained on its own data alone"

    epochs: int = 10
    per_class: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        number("confidence", "per_class", self.per_class, low=1, whole=True)

    def check(self, fed: Federation, learner: Learner, public: ClientData | None) -> None:
        """Refuse a public set that lacks a class or shares examples with a test set."""
        assert public is not None
        check_public_set("confidence", public, fed, learner.dtype)

    def describe(self, client: ClientWork) -> Tensor:
        """Train, and send the whole model."""
        model = self.model(client)
        return torch.cat([model.params, model.buffers])

    def server_transform(
        self, learner: Learner, public: ClientData | None, seed: int
    ) -> Callable[[Tensor], Tensor]:
        """Return a function from a model to its confidences on the public set."""
        assert public is not None
        examples = examples_per_class(public, self.per_class, seed)
        layout = learner.flat.layout

        def read(sent: Tensor) -> Tensor:
            learner.flat.load(sent[: layout.dim])
            learner.flat.buffers = sent[layout.dim :]
            found = [
                (output.double().softmax(1), batch.labels)
                for batch, output in outputs(learner, examples)
            ]
            chances, labels = (torch.cat(part).cpu() for part in zip(*found, strict=True))
            return confidence(chances, labels, chances.shape[1])

        return read
