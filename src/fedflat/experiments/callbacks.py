"""Callbacks of a run: they see every round and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fedflat.client.training import ClientJob
from fedflat.core.messages import Broadcast, Replies, Reply, ReplyBatch
from fedflat.errors import PrintLine
from fedflat.experiments.run_setup import RunSetup
from fedflat.server.averaging import AverageState
from fedflat.server.step import StepResult

RecordedValues = dict[str, Any]
"""Measurements by name, as they are written to the run folder."""


class RoundCallback:
    """Callback of one round. The base class does nothing."""

    seconds: float = 0.0
    """Seconds spent in callbacks; not counted as training."""

    def on_reply(self, broadcast: Broadcast, reply: Reply | ReplyBatch) -> None:
        """A usable reply to ``broadcast`` has come."""

    def on_aggregate(self, replies: Replies) -> None:
        """All replies of an exchange are aggregated."""

    def on_round_end(self, new: StepResult) -> RecordedValues:
        """The server has made its step; returns the measurements to be written."""
        return {}


class RunCallback:
    """Callback of a whole run. The base class does nothing; a plain run has no callback."""

    def job(self, job: ClientJob) -> ClientJob:
        """The clients' job, with pieces that measure at the clients."""
        return job

    def on_round_start(
        self, t: int, cohort: list[int], notes: dict[str, AverageState], due: bool
    ) -> RoundCallback:
        """The callback of round ``t``.

        Args:
            cohort: all selected clients.
            notes: state of callbacks and averages, kept from round to round.
            due: whether the round is evaluated.
        """
        return RoundCallback()


CallbackFactory = Callable[[RunSetup, PrintLine], Sequence[RunCallback]]
"""Makes the callbacks of a run; problems are reported by the second argument."""


def no_callbacks(setup: RunSetup, print_line: PrintLine) -> Sequence[RunCallback]:
    """A run without callbacks."""
    return ()
