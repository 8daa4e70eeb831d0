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

from fedflat.client.asks import Describer, Descriptions
from fedflat.client.learner import Learner
from fedflat.data.examples import ClientData
from fedflat.engine.flat import Model
from fedflat.engine.mail import Mail, Replies
from fedflat.engine.stage import Stage
from fedflat.language.spelling import Spelled

Send = Callable[[Mail], Replies]
"""One call is one exchange."""

Desks = dict[str, dict[str, Tensor]]
"""What the server's pieces remember: piece key -> name -> tensor."""


@dataclass(frozen=True)
class Holding:
    """What the server has besides models: data of its own, and a module to try a model with."""

    learner: Learner
    data: ClientData


@dataclass
class Desk:
    """One piece's place at the server."""

    memory: dict[str, Tensor]
    """Kept between rounds. Replace tensors, never change them in place."""
    notes: dict[str, float] = field(default_factory=dict)
    """Measurements of this round, written with the metrics."""
    holding: Holding | None = None
    """The server's own data, if it has any; always there for a piece that `uses_data`."""
    descriptions: Descriptions = field(default_factory=dict)
    """What every client has said of itself before round 0; always there of the piece's `describers`."""


class ServerPiece(Spelled):
    """A frozen dataclass of numbers. The base class changes nothing."""

    stage: ClassVar[Stage]
    key: ClassVar[str]
    moves: ClassVar[bool] = False
    """Whether a memory of its own moves at each exchange."""
    owns_step: ClassVar[bool] = False
    """Whether it decides by itself where the server steps to; there can be one such piece only."""
    uses_data: ClassVar[bool] = False
    """Whether it needs data that the server itself holds."""
    averages: ClassVar[str] = ""
    """How it averages the replies itself, whatever the weighting and a server's rate to its left make of them."""

    @property
    def asks(self) -> int:
        """Exchanges asked for each one given."""
        return 1

    @property
    def describers(self) -> tuple[Describer, ...]:
        """What every client must say of itself before round 0."""
        return ()

    def exchange(self, desk: Desk, send: Send, mail: Mail) -> Replies:
        """Send, and hand on what came back."""
        return send(mail)

    def settled(self, memory: Mapping[str, Tensor], model: Model, completed: int, rounds: int) -> Mapping[str, Tensor]:
        """What it remembers when ``completed`` rounds are over and the slot has this model: before the first round,
        and after each one, also in a slot that was not asked in it."""
        return memory


@dataclass(frozen=True)
class Stepped:
    """The outcome of a server step: all of it new, nothing of the old changed."""

    model: Model
    desks: Desks
    replies: Replies
    notes: dict[str, float]


def step(
    pieces: Sequence[ServerPiece], desks: Desks, send: Send, mail: Mail, holding: Holding | None = None,
    descriptions: Descriptions | None = None,
) -> Stepped:  # fmt: skip
    """One server step: the exchange through all pieces, then ``w <- w - delta``."""
    known = (holding, descriptions or {})
    mine = {piece.key: Desk(dict(desks.get(piece.key, {})), {}, *known) for piece in pieces}
    for piece in pieces:
        send = partial(piece.exchange, mine[piece.key], send)
    replies = send(mail)
    return Stepped(
        model=Model(mail.params - replies.delta, replies.buffers),
        desks={key: desk.memory for key, desk in mine.items()},
        replies=replies,
        notes={name: value for desk in mine.values() for name, value in desk.notes.items()},
    )


class _Asks(Exception):
    """A step has come to where it asks."""


def asked_by(step: Callable[[Send], object]) -> Mail:
    """The first mail that a step sends; the step is broken off there, and nothing of it is left."""
    sent: list[Mail] = []

    def send(mail: Mail) -> Replies:
        sent.append(mail)
        raise _Asks

    with suppress(_Asks):
        step(send)
    return sent[0]


def settle(pieces: Sequence[ServerPiece], desks: Desks, model: Model, completed: int, rounds: int) -> Desks:
    """What the pieces of a slot remember between two rounds; see `ServerPiece.settled`."""
    found = {p.key: dict(p.settled(desks.get(p.key, {}), model, completed, rounds)) for p in pieces}
    return {key: memory for key, memory in found.items() if memory or key in desks}
