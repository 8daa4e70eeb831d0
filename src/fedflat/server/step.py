"""One step of the server: aggregate the replies of a cohort, and step by their mean.

Replies are aggregated as they arrive, in the order of the requests, so memory does not grow with
the cohort.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from fedflat.client.instructions import Descriptions
from fedflat.client.learner import Learner
from fedflat.core.flat import Model
from fedflat.core.messages import WEIGHT, Broadcast, Replies, Reply, ReplyBatch, single_replies
from fedflat.errors import FedflatError
from fedflat.server.piece import (
    SelectionInfo,
    Send,
    ServerContext,
    ServerData,
    ServerPiece,
    ServerState,
)


@dataclass(frozen=True)
class StepResult:
    """The result of a server step. It shares no mutable data with the previous state."""

    model: Model
    state: ServerState
    replies: Replies
    metrics: dict[str, float]


def server_step(
    pieces: Sequence[ServerPiece],
    state: ServerState,
    send: Send,
    broadcast: Broadcast,
    server_data: ServerData | None = None,
    descriptions: Descriptions | None = None,
    learner: Learner | None = None,
    run: SelectionInfo = SelectionInfo(known=False),
) -> StepResult:
    """Run one server step: the exchange through all pieces, then ``w <- w - delta``."""
    contexts = {
        piece.key: ServerContext(
            dict(state.get(piece.key, {})), {}, server_data, descriptions or {}, learner, run
        )
        for piece in pieces
    }
    for piece in pieces:
        send = partial(piece.exchange, contexts[piece.key], send)
    replies = send(broadcast)
    return StepResult(
        model=Model(broadcast.params - replies.delta, replies.buffers),
        state={key: context.state for key, context in contexts.items()},
        replies=replies,
        metrics={
            name: value for context in contexts.values() for name, value in context.metrics.items()
        },
    )


class _FirstBroadcast(Exception):
    """Raised to stop a step at its first broadcast."""


def first_broadcast(step: Callable[[Send], object]) -> Broadcast:
    """Return the first broadcast that a step sends. The step stops there and has no effect."""
    sent: list[Broadcast] = []

    def send(broadcast: Broadcast) -> Replies:
        sent.append(broadcast)
        raise _FirstBroadcast

    with suppress(_FirstBroadcast):
        step(send)
    return sent[0]


def after_round(
    pieces: Sequence[ServerPiece], states: ServerState, model: Model, completed: int, rounds: int
) -> ServerState:
    """Return the states of all pieces of a slot after a round (`ServerPiece.after_round`)."""
    new = {
        p.key: dict(p.after_round(states.get(p.key, {}), model, completed, rounds)) for p in pieces
    }
    return {key: state for key, state in new.items() if state or key in states}


class _Mean:
    """A running weighted mean. With equal weights it is the plain running mean, bit for bit."""

    def __init__(self) -> None:
        self.weight = 0.0
        self.value: Tensor | None = None
        self._given = False
        """Whether the value is the only tensor that was added, which must not change."""

    def add(self, value: Tensor, weight: float) -> None:
        self.weight += weight
        if self.value is None:
            self.value, self._given = value, True
        elif value.numel():
            share = weight / self.weight if self.weight else 0.0
            lerp = self.value.lerp if self._given else self.value.lerp_
            self.value, self._given = lerp(value, share), False


def _with_counts(received: Reply | ReplyBatch) -> Iterator[tuple[Reply, int, Tensor]]:
    """Yield (reply, count, square): single replies, or the mean of ``count`` of equal weight.

    ``square`` is the mean squared length of their deltas.
    """
    if isinstance(received, Reply):
        yield received, 1, received.square
    elif WEIGHT in received.metrics:
        yield from ((reply, 1, reply.square) for reply in received)
    else:
        yield received.mean, len(received), received.square / len(received)


Combine = Callable[[Tensor, Tensor], Tensor]
"""Maps deltas (one per row) and weights (sum 1) to one vector."""


def aggregate(
    broadcast: Broadcast,
    replies: Iterable[Reply | ReplyBatch],
    *,
    population: int,
    weighting: str,
    aggregator: Combine | None = None,
) -> Replies:
    """Aggregate replies in the order in which they arrive.

    ``weighting`` is "sized" (by weight) or "uniform". ``aggregator`` replaces the weighted mean; it
    needs all replies in memory.
    """
    if aggregator is not None:
        singles = [single for reply in replies for single in single_replies(reply)]
        return _combine(broadcast, singles, population, weighting, aggregator)
    delta, buffers, uniform, loss, square = _Mean(), _Mean(), _Mean(), _Mean(), _Mean()
    means: dict[tuple[str, str, str], _Mean] = defaultdict(_Mean)
    count, steps, batch = 0, 0, 0.0
    for reply, n, length in (part for received in replies for part in _with_counts(received)):
        count += n
        weight = n * (reply.weight if weighting == "sized" else 1)
        delta.add(reply.delta, weight)
        uniform.add(reply.delta, n)
        square.add(length, weight)
        buffers.add(reply.buffers, weight)
        loss.add(
            torch.tensor(reply.metrics["loss"], dtype=torch.float64),
            weight if reply.weight else 0.0,
        )
        steps += n * reply.steps
        batch += n * reply.samples / reply.steps
        for key, named in reply.extras.items():
            for name, tensor in named.items():
                means[key, name, "uniform"].add(tensor, n)
                means[key, name, "sized"].add(tensor, n * reply.weight)
    if delta.value is None or buffers.value is None or uniform.value is None or loss.value is None:
        raise FedflatError(
            f"round {broadcast.round + 1}: no client's reply could be used, so there is nothing to "
            "average. Lower the learning rate, or stop at the first bad reply to see it "
            "(on_bad='raise')."
        )
    return Replies(
        broadcast,
        delta.value,
        buffers.value,
        uniform.value,
        count,
        population,
        float(loss.value),
        steps / count,
        {name: mean.value for name, mean in means.items() if mean.value is not None},
        batch / count,
        weighting,
        delta.weight,
        0.0 if square.value is None else float(square.value),
    )


def _combine(
    broadcast: Broadcast, replies: list[Reply], population: int, weighting: str, aggregator: Combine
) -> Replies:
    folded = aggregate(broadcast, replies, population=population, weighting=weighting)
    weights = torch.tensor(
        [r.weight if weighting == "sized" else 1.0 for r in replies], dtype=torch.float64
    )
    weights = weights if weights.any() else torch.ones_like(weights)
    delta = aggregator(torch.stack([reply.delta for reply in replies]), weights / weights.sum())
    return replace(folded, delta=delta, uniform=delta)
