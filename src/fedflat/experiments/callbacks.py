"""Callbacks of a run. Recorders see every round and change nothing. A function of the user is called
after every round, and may stop the run.

def good_enough(end: ff.RoundEnd) -> bool:
    return end.row.get("accuracy", 0) > 0.9

ff.run("fedavg", on="digits(lda(0))", rounds=500, on_round_end=good_enough)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedflat.client.training import ClientJob
from fedflat.core.messages import Broadcast, Replies, Reply, ReplyBatch
from fedflat.errors import PrintLine, SettingError
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_setup import RunSetup
from fedflat.server.averaging import AverageState
from fedflat.server.step import StepResult

if TYPE_CHECKING:
    from torch import nn


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


@dataclass(frozen=True)
class RoundEnd:
    """A round that has been computed, as `on_round_end` functions see it."""

    round: int
    """Rounds that are done, this one included."""
    rounds: int
    """Rounds of the run."""
    method: str
    """The text of the method."""
    seed: int
    """The seed of the run."""
    train_loss: float
    """The mean training loss of the round's clients."""
    row: Row
    """The evaluation after this round; empty if the round is not evaluated."""
    rows: Sequence[Row]
    """The evaluations of the rounds before."""
    source: Callable[[str | None], nn.Module]
    """Returns a model of the run as a module; see `module`."""

    def module(self, model: str | None = None) -> nn.Module:
        """A copy of the model that the run reports, or of another one by name, after this round.

        model
            Its name, such as "server" beside "swa".
        """
        return self.source(model)


OnRoundEnd = Callable[[RoundEnd], bool | None] | Sequence[Callable[[RoundEnd], bool | None]]
"""A function that is called after every round, or several. One that returns True stops the run."""


def functions_of(given: OnRoundEnd | None) -> tuple[Callable[[RoundEnd], bool | None], ...]:
    """The functions in order; an error if one is not a function."""
    if given is None:
        return ()
    found = (given,) if callable(given) else tuple(given) if isinstance(given, Sequence) else given
    if not isinstance(found, tuple) or isinstance(given, str) or not all(map(callable, found)):
        raise SettingError(
            f"run: on_round_end must be a function of a RoundEnd, or a list of them, found {given!r}."
        )
    return found


def names_of(given: OnRoundEnd | None) -> str | None:
    """The names of the functions, for run.json; None if there are none.

    >>> names_of(len), names_of([]), names_of([len, max])
    ('len', None, 'len, max')
    """
    names = (getattr(one, "__qualname__", type(one).__qualname__) for one in functions_of(given))
    return ", ".join(names) or None


def wants_stop(functions: Sequence[Callable[[RoundEnd], bool | None]], end: RoundEnd) -> bool:
    """Call every function; whether one of them stops the run."""
    answers = [one(end) for one in functions]
    for function, answer in zip(functions, answers, strict=True):
        if answer not in (None, True, False):
            raise SettingError(
                f"on_round_end: {names_of(function)} must return True to stop the run, or False or "
                f"nothing to continue, found {answer!r:.100}."
            )
    return any(answers)
