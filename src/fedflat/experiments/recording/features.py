"""The norm of the global model's outputs on each client's data: the mean of ``||f(x)||``, f the
logits.

Measured on the clients of the round, whenever the model is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedflat.client.evaluate import outputs
from fedflat.client.learner import Learner
from fedflat.data.examples import ClientData
from fedflat.experiments.callbacks import Seen
from fedflat.experiments.recording.recorder import Metric, RoundView, refuse_elsewhere
from fedflat.experiments.run_setup import RunSetup
from fedflat.registry.specs import register
from fedflat.server.piece import StepResult


@register("metric", "features")
@dataclass(frozen=True, repr=False)
class Features(Metric):
    """Mean norm of the global model's outputs on each client's data.

    Measured for the clients of the round, in rounds that are evaluated.
    """

    title = "Norm of the outputs"
    note = (
        "The mean norm of the model's outputs on a client's examples, mean over the clients of "
        "the round."
    )

    def check(self, setup: RunSetup) -> None:
        """The clients' data must be on this machine."""
        refuse_elsewhere(self, setup)

    def cost(self, setup: RunSetup) -> str:
        """A forward pass."""
        return "one forward pass over the data of the round's clients every evaluation"

    def on_round_end(self, s: RoundView, new: StepResult) -> Seen:
        """The means, if the round is evaluated."""
        if not s.due:
            return {}
        learner, fed = s.setup.job.learner, s.setup.fed
        learner.load(new.model)
        return {self.key: {str(k): mean_norm(learner, fed.data(k)) for k in sorted(set(s.cohort))}}


def mean_norm(learner: Learner, data: ClientData) -> float:
    """The mean norm of the outputs of the module with its current parameters."""
    total = 0.0
    for batch, output in outputs(learner, data):
        total += float(
            torch.linalg.vector_norm(output.reshape(len(batch), -1).double(), dim=1).sum()
        )
    return total / len(data)
