"""How far clients walk from what they were sent.

    drift = 1/(E S) sum_e sum_k ||w_k after e epochs - w_sent||

over the S clients of the round and their E local epochs. Where a visit is a number of steps, not of
epochs, its end is the only one that counts.
"""

from __future__ import annotations

import torch

from fedflat.client.local import LocalTraining
from fedflat.client.measurements import DRIFT, EpochEnds
from fedflat.client.piece import Piece
from fedflat.core.messages import Broadcast, Reply, ReplyBatch
from fedflat.experiments.callbacks import Seen
from fedflat.experiments.prepare import PreparedRun
from fedflat.experiments.recording.recorder import MetricRecorder, RoundRecorder
from fedflat.server.piece import StepResult

NAME = DRIFT


class Drift(MetricRecorder):
    """The mean over clients and epochs."""

    name = NAME

    def cost(self, prepared: PreparedRun) -> str:
        """One norm an epoch."""
        return f"one norm at the end of each {'visit' if _by_steps(prepared.exp.local) else 'local epoch'}"

    def pieces(self, local: LocalTraining) -> tuple[Piece, ...]:
        """The one that measures."""
        return (EpochEnds(inside=not _by_steps(local)),)

    def on_reply(self, s: RoundRecorder, broadcast: Broadcast, reply: Reply | ReplyBatch) -> None:
        """Collect what it measured."""
        s.memo.setdefault(NAME, []).append(
            torch.as_tensor(reply.metrics[NAME], dtype=torch.float64).reshape(-1)
        )

    def on_round_end(self, s: RoundRecorder, new: StepResult) -> Seen:
        """The mean over all replies."""
        return {NAME: float(torch.cat(s.memo[NAME]).mean())} if NAME in s.memo else {}


def _by_steps(local: LocalTraining) -> bool:
    return local.steps is not None and local.orders is None
