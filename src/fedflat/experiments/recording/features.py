"""How large the global model's outputs are on each client's data: the mean of ``||f(x)||``, f the
logits.

Watched on the clients of the round, whenever the model is evaluated.
"""

from __future__ import annotations

import torch

from fedflat.client.evaluate import outputs
from fedflat.client.learner import Learner
from fedflat.data.examples import ClientData
from fedflat.experiments.callbacks import Seen
from fedflat.experiments.evaluation import load
from fedflat.experiments.prepare import PreparedRun
from fedflat.experiments.recording.recorder import MetricRecorder, RoundRecorder, refuse_elsewhere
from fedflat.server.piece import StepResult


class Features(MetricRecorder):
    """The mean norm for each client."""

    name = "features"

    def check(self, prepared: PreparedRun) -> None:
        """Clients' data must be here."""
        refuse_elsewhere(self, prepared)

    def cost(self, prepared: PreparedRun) -> str:
        """A forward pass."""
        return "one forward pass over the data of the round's clients every evaluation"

    def on_round_end(self, s: RoundRecorder, new: StepResult) -> Seen:
        """The means, if the round is evaluated."""
        if not s.due:
            return {}
        learner, fed = s.prepared.learner, s.prepared.fed
        load(learner, new.model)
        return {
            "feature_norms": {
                str(k): mean_norm(learner, fed.data(k)) for k in sorted(set(s.cohort))
            }
        }


def mean_norm(learner: Learner, data: ClientData) -> float:
    """The mean norm of the outputs of the module, where it stands."""
    total = 0.0
    for batch, output in outputs(learner, data):
        total += float(
            torch.linalg.vector_norm(output.reshape(len(batch), -1).double(), dim=1).sum()
        )
    return total / len(data)
