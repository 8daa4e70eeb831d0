"""The norm of the server's parameters after each round."""

from __future__ import annotations

import torch

from fedflat.experiments.callbacks import Seen
from fedflat.experiments.prepare import PreparedRun
from fedflat.experiments.recording.recorder import MetricRecorder, RoundRecorder
from fedflat.server.piece import StepResult


class Norms(MetricRecorder):
    """``||w||`` of the server's model."""

    name = "norms"

    def cost(self, prepared: PreparedRun) -> str:
        """Next to nothing."""
        return "one norm a round"

    def on_round_end(self, s: RoundRecorder, new: StepResult) -> Seen:
        """The norm."""
        return {"param_norm": float(torch.linalg.vector_norm(new.model.params.double()))}
