"""The norm of the global model's outputs on each client's data: the mean of ``||f(x)||``, f the
logits.

Measured whenever the model is evaluated, on the clients of the round or on all clients (Caldarola
et al., Improving Generalization in Federated Learning by Seeking Flat Minima, ECCV 2022, Figure 7).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedflat.client.evaluate import outputs
from fedflat.client.learner import Learner
from fedflat.data.examples import ClientData
from fedflat.errors import flag
from fedflat.experiments.callbacks import RecordedValues
from fedflat.experiments.recording.recorder import (
    LINE_AND_HEAT_MAP,
    Metric,
    RoundView,
    refuse_elsewhere,
    refuse_many_clients,
)
from fedflat.experiments.run_setup import RunSetup
from fedflat.registry.specs import register
from fedflat.server.step import StepResult


@register("metric", "features")
@dataclass(frozen=True, repr=False)
class Features(Metric):
    """Mean norm of the global model's outputs on each client's data.

    Measured in rounds that are evaluated, for the clients of the round or, with ``everyone``, for
    all clients.
    """

    everyone: bool = False

    title = "Norm of the outputs"
    entries, drawing = "client", LINE_AND_HEAT_MAP

    def __post_init__(self) -> None:
        flag("features", "everyone", self.everyone)

    @property
    def labels(self) -> dict[str, str]:
        """Which clients it is measured on."""
        clients = "all clients" if self.everyone else "the clients of the round"
        note = (
            "The mean norm of the model's outputs on a client's examples. A curve shows the mean "
            f"over {clients}, a heat map each client."
        )
        return {**super().labels, "note": note}

    def check(self, setup: RunSetup) -> None:
        """The clients' data must be on this machine."""
        (refuse_many_clients if self.everyone else refuse_elsewhere)(self, setup)

    def cost(self, setup: RunSetup) -> str:
        clients = "all clients" if self.everyone else "the round's clients"
        return f"one forward pass over the data of {clients} every evaluation"

    def on_round_end(self, s: RoundView, new: StepResult) -> RecordedValues:
        """The means, if the round is evaluated."""
        if not s.due:
            return {}
        learner, fed = s.setup.job.learner, s.setup.fed
        learner.load(new.model)
        clients = range(fed.population) if self.everyone else sorted(set(s.cohort))
        return {self.key: {str(k): mean_norm(learner, fed.data(k)) for k in clients}}


def mean_norm(learner: Learner, data: ClientData) -> float:
    """The mean norm of the outputs of the module with its current parameters."""
    total = 0.0
    for batch, output in outputs(learner, data):
        total += float(
            torch.linalg.vector_norm(output.reshape(len(batch), -1).double(), dim=1).sum()
        )
    return total / len(data)
