"""Whether rounds pull in one direction: the cosine between the pseudo-gradients of this round and
the last.

The pseudo-gradient is what the cohort answers, sent minus returned in the mean (or by the method's
rule), before the server makes a step of it. Of several exchanges in a round the last that counts is
taken.
"""

from __future__ import annotations

import torch

from fedflat.core.flat import unit
from fedflat.core.messages import Replies
from fedflat.experiments.callbacks import Seen
from fedflat.experiments.prepare import PreparedRun
from fedflat.experiments.recording.recorder import MetricRecorder, RoundRecorder
from fedflat.experiments.results.tables import size
from fedflat.server.piece import StepResult

NAME = "alignment"


class Alignment(MetricRecorder):
    """The cosine; the first round has none."""

    name = NAME

    def cost(self, prepared: PreparedRun) -> str:
        """One vector to remember."""
        one = size(prepared.info.layout.dim * prepared.learner.dtype.itemsize)
        return f"one product of two vectors a round, and the last one ({one}) in memory and in checkpoints"

    def on_aggregate(self, s: RoundRecorder, replies: Replies) -> None:
        """Of several exchanges in a round the last counts."""
        s.memo[NAME] = replies.delta

    def on_round_end(self, s: RoundRecorder, new: StepResult) -> Seen:
        """The cosine, if the round before was watched too."""
        last, this = s.notes, s.memo.get(NAME)
        if this is None:
            return {}
        known = NAME in last and int(last["round"]) == s.round - 1
        seen = {NAME: float(unit(last[NAME].double()) @ unit(this.double()))} if known else {}
        s.notes |= {NAME: this.clone(), "round": torch.tensor(s.round)}
        return seen
