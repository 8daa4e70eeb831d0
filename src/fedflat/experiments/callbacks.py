"""Who listens to a run: told what happens, round by round, without being able to change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedflat.client.training import ClientJob
from fedflat.core.messages import Broadcast, Replies, Reply, ReplyBatch
from fedflat.server.averaging import AverageState
from fedflat.server.piece import StepResult

if TYPE_CHECKING:
    from fedflat.experiments.prepare import PreparedRun

Say = Callable[[str], None]
Seen = dict[str, Any]
"""Measurements by name, as they are written."""


class RoundCallback:
    """What is heard of one round. The base class hears nothing."""

    seconds: float = 0.0
    """Spent on listening while the round went on."""

    def on_reply(self, broadcast: Broadcast, reply: Reply | ReplyBatch) -> None:
        """A reply that counts has come."""

    def on_aggregate(self, replies: Replies) -> None:
        """An exchange is over."""

    def on_round_end(self, new: StepResult) -> Seen:
        """The server has stepped: what is to be written of the round."""
        return {}


class RunCallback:
    """Listens to a whole run. The base class is nobody."""

    def job(self, job: ClientJob) -> ClientJob:
        """The clients' job, with what is measured at the clients."""
        return job

    def on_round_start(
        self, t: int, cohort: list[int], notes: dict[str, AverageState], due: bool
    ) -> RoundCallback:
        """Round ``t``; ``notes`` are handed on from round to round, and ``due`` says whether it is
        evaluated."""
        return RoundCallback()


CallbackFactory = Callable[["PreparedRun", Say], RunCallback]
"""Who listens to a run that is ready; told whom to tell of trouble."""


def no_callback(prepared: PreparedRun, say: Say) -> RunCallback:
    """Nobody listens."""
    return RunCallback()
