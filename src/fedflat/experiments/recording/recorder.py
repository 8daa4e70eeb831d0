"""What a watcher is, and what it sees of a round."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from fedflat.client.local import LocalTraining
from fedflat.client.piece import Piece
from fedflat.core.messages import Broadcast, Replies, Reply, ReplyBatch
from fedflat.errors import SettingError
from fedflat.experiments.callbacks import RoundCallback, Seen
from fedflat.experiments.prepare import PreparedRun
from fedflat.server.averaging import AverageState
from fedflat.server.piece import StepResult

Trouble = Callable[["MetricRecorder", Exception], None]


@dataclass
class RoundRecorder(RoundCallback):
    """One round; ``see`` gives what its watchers have seen. Without watchers nothing is done."""

    recorders: tuple[MetricRecorder, ...]
    prepared: PreparedRun
    round: int
    cohort: list[int]
    notes: AverageState
    """What watchers remember from round to round. Replace tensors, never change them in place."""
    due: bool
    """Whether the round is evaluated: what is expensive is watched then only."""
    memo: dict[str, Any] = field(default_factory=dict)
    """What watchers note in this round, for themselves."""
    seconds: float = 0.0
    """Spent on watching while the round went on."""
    trouble: Trouble = lambda recorder, error: None
    """Told of a watcher that failed: it sees nothing more in this round, and the run goes on."""

    def on_reply(self, broadcast: Broadcast, reply: Reply | ReplyBatch) -> None:
        """A reply that counts has come."""
        if broadcast.instruction.trains:
            for recorder in self.recorders:
                with self._aside(recorder):
                    recorder.on_reply(self, broadcast, reply)

    def on_aggregate(self, replies: Replies) -> None:
        """An exchange is over."""
        if replies.broadcast.commit and replies.broadcast.instruction.trains:
            for recorder in self.recorders:
                with self._aside(recorder):
                    recorder.on_aggregate(self, replies)

    def on_round_end(self, new: StepResult) -> Seen:
        """The server has stepped: what was seen in the round."""
        seen: Seen = {}
        for recorder in self.recorders:
            with self._aside(recorder):
                seen |= recorder.on_round_end(self, new)
        return {"round": self.round + 1, **seen} if seen else {}

    @contextmanager
    def _aside(self, recorder: MetricRecorder) -> Iterator[None]:
        """Time in here is counted, random numbers drawn in here are drawn again outside, and errors
        end no run."""
        begun = time.monotonic()
        try:
            with torch.random.fork_rng(devices=[]):
                yield
        except Exception as error:
            self.recorders = tuple(other for other in self.recorders if other is not recorder)
            self.trouble(recorder, error)
        self.seconds += time.monotonic() - begun


def refuse_elsewhere(recorder: MetricRecorder, prepared: PreparedRun) -> None:
    """Refuse to look at data that are not here."""
    if not prepared.fed.here:
        raise SettingError(
            f"watch: {recorder.name} looks at what clients hold, and that is not here but with those who visit them. "
            "Leave it out."
        )


class MetricRecorder(ABC):
    """Looks at a run and touches nothing. The base class sees nothing."""

    name: ClassVar[str]
    needs_client_models: ClassVar[bool] = False
    """Whether it wants clients' own models with their replies."""

    @abstractmethod
    def cost(self, prepared: PreparedRun) -> str:
        """What watching costs, in a sentence for people."""

    def check(self, prepared: PreparedRun) -> None:
        """Refuse a run in which there is nothing for it to see."""

    def pieces(self, local: LocalTraining) -> tuple[Piece, ...]:
        """Client pieces that measure and change nothing."""
        return ()

    def on_reply(self, s: RoundRecorder, broadcast: Broadcast, reply: Reply | ReplyBatch) -> None:
        """A training reply that counts has come, from one client or from several."""

    def on_aggregate(self, s: RoundRecorder, replies: Replies) -> None:
        """A training exchange that counts is over."""

    def on_round_end(self, s: RoundRecorder, new: StepResult) -> Seen:
        """What is to be written when the server has stepped."""
        return {}
