"""The norm of the server's parameters, the drift of clients' models, the alignment of rounds.

    drift      1/(E S) sum_e sum_k ||w_k after e epochs - w_sent||
    alignment  the cosine between the pseudo-gradients of this round and of the last one

over the S clients of the round and their E local epochs. With ``--local-steps``, only the end of
local training counts. The pseudo-gradient is the aggregate of the clients' deltas, before the
server optimizer uses it. If a round has several exchanges, the last one with ``commit=True`` is
used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedflat.client.local import LocalTraining
from fedflat.client.measurements import DRIFT, EpochEnds
from fedflat.client.piece import Piece
from fedflat.core.flat import unit
from fedflat.core.messages import Broadcast, Replies, Reply, ReplyBatch
from fedflat.experiments.callbacks import RecordedValues
from fedflat.experiments.recording.recorder import Metric, RoundView
from fedflat.experiments.run_setup import RunSetup
from fedflat.registry.specs import register
from fedflat.server.step import StepResult
from fedflat.text_table import size


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


@register("metric", "alignment")
@dataclass(frozen=True, repr=False)
class Alignment(Metric):
    """Cosine between the pseudo-gradients of successive rounds; the first round has none.

    The pseudo-gradient is the aggregate of the clients' deltas, before the server step.
    """

    title = "Cosine of successive pseudo-gradients"
    note = (
        "The cosine between the pseudo-gradients of a round and of the round before it. The "
        "pseudo-gradient is the aggregate of the clients' deltas (sent minus returned parameters), "
        "before the server step. 1: same direction, -1: opposite."
    )

    def cost(self, setup: RunSetup) -> str:
        one = size(setup.job.learner.flat.layout.dim * setup.job.learner.dtype.itemsize)
        return (
            f"one product of two vectors a round, and one more vector ({one}) in memory and in "
            "checkpoints"
        )

    def on_aggregate(self, s: RoundView, replies: Replies) -> None:
        """Keep the pseudo-gradient; a later exchange of the round replaces it."""
        s.scratch[self.key] = replies.delta

    def on_round_end(self, s: RoundView, new: StepResult) -> RecordedValues:
        """The cosine, if the round before was recorded too."""
        last, this = s.state, s.scratch.get(self.key)
        if this is None:
            return {}
        key, number = self.key, f"{self.key}.round"
        before = last.get(number, last.get("round"))  # "round" in checkpoints of 0.4
        known = before is not None and int(before) == s.round - 1
        seen = {key: float(unit(last[key].double()) @ unit(this.double()))} if known else {}
        s.state |= {key: this.clone(), number: torch.tensor(s.round)}
        return seen
