"""A server piece wraps the exchange: what is sent, and what is made of the replies.

The server is an optimiser whose gradient oracle is the federation: it sends ``w`` and gets back the
pseudo-gradient ``delta``. Its pieces stack exactly as a client's do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from torch import Tensor

from fedflat.client.instructions import Describer, Descriptions
from fedflat.client.learner import Learner
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.stage import Stage
from fedflat.data.examples import ClientData
from fedflat.registry.specs import TextSpec

Send = Callable[[Broadcast], Replies]
"""One call is one exchange."""

ServerState = dict[str, dict[str, Tensor]]
"""What the server's pieces remember: piece key -> name -> tensor."""


@dataclass(frozen=True)
class ServerData:
    """What the server has besides models: data of its own, and a module to try a model with."""

    learner: Learner
    data: ClientData


@dataclass
class ServerContext:
    """One piece's place at the server."""

    state: dict[str, Tensor]
    """Kept between rounds. Replace tensors, never change them in place."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Measurements of this round, written with the metrics."""
    server_data: ServerData | None = None
    """The server's own data, if it has any; always there for a piece that `uses_data`."""
    descriptions: Descriptions = field(default_factory=dict)
    """What every client has said of itself before round 0; always there of the piece's
    `describers`."""


class ServerPiece(TextSpec):
    """A frozen dataclass of numbers. The base class changes nothing."""

    stage: ClassVar[Stage]
    key: ClassVar[str]
    stateful: ClassVar[bool] = False
    """Whether a memory of its own moves at each exchange."""
    owns_step: ClassVar[bool] = False
    """Whether it decides by itself where the server steps to; there can be one such piece only."""
    uses_data: ClassVar[bool] = False
    """Whether it needs data that the server itself holds."""
    averages: ClassVar[str] = ""
    """How it averages the replies itself, whatever the weighting and a server's rate to its left
    make of them."""

    @property
    def oracle_calls(self) -> int:
        """Exchanges asked for each one given."""
        return 1

    @property
    def describers(self) -> tuple[Describer, ...]:
        """What every client must say of itself before round 0."""
        return ()

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Send, and hand on what came back."""
        return send(broadcast)

    def after_round(
        self, state: Mapping[str, Tensor], model: Model, completed: int, rounds: int
    ) -> Mapping[str, Tensor]:
        """What it remembers when ``completed`` rounds are over and the slot has this model: before
        the first round, and after each one, also in a slot that was not asked in it."""
        return state


@dataclass(frozen=True)
class StepResult:
    """The outcome of a server step: all of it new, nothing of the old changed."""

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
) -> StepResult:
    """One server step: the exchange through all pieces, then ``w <- w - delta``."""
    known = (server_data, descriptions or {})
    mine = {
        piece.key: ServerContext(dict(state.get(piece.key, {})), {}, *known) for piece in pieces
    }
    for piece in pieces:
        send = partial(piece.exchange, mine[piece.key], send)
    replies = send(broadcast)
    return StepResult(
        model=Model(broadcast.params - replies.delta, replies.buffers),
        state={key: context.state for key, context in mine.items()},
        replies=replies,
        metrics={
            name: value for context in mine.values() for name, value in context.metrics.items()
        },
    )


class _FirstBroadcast(Exception):
    """A step has come to where it asks."""


def first_broadcast(step: Callable[[Send], object]) -> Broadcast:
    """The first mail that a step sends; the step is broken off there, and nothing of it is left."""
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
    """What the pieces of a slot remember between two rounds; see `ServerPiece.after_round`."""
    found = {
        p.key: dict(p.after_round(states.get(p.key, {}), model, completed, rounds)) for p in pieces
    }
    return {key: state for key, state in found.items() if state or key in states}
