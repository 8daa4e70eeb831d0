"""The norm of the server's parameters after each round."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedflat.experiments.callbacks import RecordedValues
from fedflat.experiments.recording.recorder import Metric, RoundView
from fedflat.experiments.run_setup import RunSetup
from fedflat.registry.specs import register
from fedflat.server.step import StepResult


@register("metric", "norms")
@dataclass(frozen=True, repr=False)
class Norms(Metric):
    """Norm of the server's parameters, ``||w||``."""

    title = "Norm of the parameters"
    note = "The norm of the server's model."

    def cost(self, setup: RunSetup) -> str:
        return "one norm a round"

    def on_round_end(self, s: RoundView, new: StepResult) -> RecordedValues:
        return {self.key: float(torch.linalg.vector_norm(new.model.params.double()))}
