"""The cosine between the pseudo-gradients of this round and of the last one.

The pseudo-gradient is the aggregate of the clients' deltas, before the server optimizer uses it. If
a round has several exchanges, the last one with ``commit=True`` is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedflat.core.flat import unit
from fedflat.core.messages import Replies
from fedflat.experiments.callbacks import RecordedValues
from fedflat.experiments.recording.recorder import Metric, RoundView
from fedflat.experiments.run_setup import RunSetup
from fedflat.registry.specs import register
from fedflat.server.step import StepResult
from fedflat.text_table import size


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
