"""Who of those that were asked has answered, and what becomes of a round in which some have not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fedflat.core.failures import LATE, NOT_FINITE, REFUSED, ClientFailure
from fedflat.core.messages import Broadcast, Reply, ReplyBatch, unstack
from fedflat.errors import FedflatError, NotFinite
from fedflat.execution.client_pool import PoolOutcome
from fedflat.experiments.experiment import Experiment

NAMED = 5
"""The most missing clients that a message names."""


class Diverged(Exception):
    """A reply was not finite, and the run is to be recorded as diverged."""


class TooFewReplies(FedflatError):
    """Fewer replies came than there must be."""


@dataclass
class Failures:
    """Those missing in a round, as far as the run's settings allow it."""

    exp: Experiment
    failures: list[ClientFailure] = field(default_factory=list)

    def record(self, t: int, one: ClientFailure, diagnose: Callable[[], str]) -> None:
        """Go on without a client in round ``t``, or do not; ``diagnose`` says where a number went
        wrong."""
        if one.reason == NOT_FINITE:
            self._not_finite(t, one, diagnose)
        else:
            self.check(t, one)
        self.failures.append(one)

    def check(self, t: int, one: ClientFailure) -> None:
        """Raise the error of a failed visit of round ``t``, unless the run allows missing
        clients."""
        if self.exp.min_replies is None:
            raise one.error or FedflatError(
                f"round {t}: {one}. To go on without such clients, set min_replies."
            )

    def _not_finite(self, t: int, one: ClientFailure, diagnose: Callable[[], str]) -> None:
        if self.exp.on_bad == "stop":
            raise Diverged
        if self.exp.on_bad != "skip":
            raise NotFinite(
                f"round {t}, client {one.client}: the reply is NaN or infinite; {diagnose()}. Lower the learning rate "
                "or clip gradients; on_bad='skip' leaves such replies out, on_bad='stop' records the run as diverged."
            )

    def check_count(self, t: int, came: int) -> None:
        """Refuse to go on with fewer replies than the run must have."""
        least = self.exp.min_replies
        if least is not None and came < least:
            who = "; ".join(map(str, self.failures[-NAMED:])) + (
                "; ..." if len(self.failures) > NAMED else ""
            )
            raise TooFewReplies(
                f"round {t}: {came} replies came that could be used, and min_replies asks for {least} at least: {who}. "
                "See what went wrong there, ask more clients a round, or ask for fewer replies."
            )

    def as_json(self) -> list[dict[str, object]]:
        """Who was missing and why, as it is written down."""
        return [
            {"client": one.client, "letter": one.request, "reason": one.reason, "why": one.detail}
            for one in self.failures
        ]


def match_replies(
    visits: Iterable[PoolOutcome], asked: Mapping[str, int], broadcast: Broadcast, *, each: bool
) -> Iterator[PoolOutcome]:
    """What came of the letters ``asked``, ids and whom they went to; who says nothing at all is too
    late.

    Answers to other letters are dropped. Sheaves are as they are; their replies come one by one if
    ``each`` is wanted, or if some are not finite.
    """
    waiting = dict(asked)
    for outcome in visits:
        for one in (outcome,) if _single(outcome) else _apart(outcome, each):
            if not _expected(one, waiting):
                continue
            if isinstance(one, ClientFailure) or _fits(one[0], broadcast):
                yield one
            elif isinstance(one[0], Reply):
                yield ClientFailure(
                    one[0].client, one[0].request, REFUSED, "the reply does not fit the model"
                )
    for request, client in waiting.items():
        yield ClientFailure(client, request, LATE, "no answer came")


def _single(outcome: PoolOutcome) -> bool:
    return isinstance(outcome, ClientFailure) or isinstance(outcome[0], Reply)


def _apart(outcome: PoolOutcome, each: bool) -> Iterator[PoolOutcome]:
    assert not isinstance(outcome, ClientFailure)
    reply, state = outcome
    if isinstance(reply, ReplyBatch) and (each or not reply.finite):
        yield from zip(reply, unstack(state, len(reply)), strict=True)
    else:
        yield reply, state


def _expected(one: PoolOutcome, waiting: dict[str, int]) -> bool:
    """Whether it answers letters that wait for an answer, which then wait no more."""
    answer = one if isinstance(one, ClientFailure) else one[0]
    if not isinstance(answer, ReplyBatch):
        return waiting.pop(answer.request, None) is not None
    requests = answer.requests
    if not all(request in waiting for request in requests):
        return False
    for request in requests:
        del waiting[request]
    return True


def _fits(reply: Reply | ReplyBatch, broadcast: Broadcast) -> bool:
    """Whether a reply is of the model's size, where it should be."""
    if not broadcast.instruction.upload_vectors:
        return True
    return (
        reply.delta.shape[-1:] == broadcast.params.shape
        and reply.buffers.shape[-1:] == broadcast.buffers.shape
    )
