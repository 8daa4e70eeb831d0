"""The distance of clients' models from the model they were sent.

    drift = 1/(E S) sum_e sum_k ||w_k after e epochs - w_sent||

over the S clients of the round and their E local epochs. With ``--local-steps``, only the end of
local training counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedflat.client.local import LocalTraining
from fedflat.client.measurements import DRIFT, EpochEnds
from fedflat.client.piece import Piece
from fedflat.core.messages import Broadcast, Reply, ReplyBatch
from fedflat.experiments.callbacks import RecordedValues
from fedflat.experiments.recording.recorder import Metric, RoundView
from fedflat.experiments.run_setup import RunSetup
from fedflat.registry.specs import register
from fedflat.server.step import StepResult


@register("metric", "drift")
@dataclass(frozen=True, repr=False)
class Drift(Metric):
    """Distance of clients' models from the model they were sent, mean over clients and local
    epochs."""

    title = "Drift"
    note = (
        "The distance of clients' models from the model they were sent, mean over clients and "
        "local epochs."
    )

    def cost(self, setup: RunSetup) -> str:
        return (
            "one norm at the end of each "
            f"{'local training' if _by_steps(setup.exp.local) else 'local epoch'}"
        )

    def pieces(self, local: LocalTraining) -> tuple[Piece, ...]:
        return (EpochEnds(inside=not _by_steps(local)),)

    def on_reply(self, s: RoundView, broadcast: Broadcast, reply: Reply | ReplyBatch) -> None:
        s.scratch.setdefault(self.key, []).append(
            torch.as_tensor(reply.metrics[DRIFT], dtype=torch.float64).reshape(-1)
        )

    def on_round_end(self, s: RoundView, new: StepResult) -> RecordedValues:
        return (
            {self.key: float(torch.cat(s.scratch[self.key]).mean())}
            if self.key in s.scratch
            else {}
        )


def _by_steps(local: LocalTraining) -> bool:
    return local.steps is not None and local.orders is None
