"""What a topology is: which of the server's models asks which clients, along which chains, and how models meet.

A server may hold several models, each in a **slot** with its own server pieces' memory and its own clients. In a round
some slots step, each by an exchange with its chains. A **chain** is clients one after the other: the first is sent the
slot's model, each other one what the one before it has returned, and the last one replies to the server for all of
them. In a star every chain has one client.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedflat.client.asks import Describer
from fedflat.client.piece import Piece
from fedflat.composition.method import Method
from fedflat.data.examples import ClientData
from fedflat.engine.flat import Model
from fedflat.engine.mail import Mail, Reply, Sheaf
from fedflat.errors import SettingError
from fedflat.language.spelling import Spelled
from fedflat.topology.crowd import Chain, Crowd
from fedflat.topology.grouping.given import grouping_of
from fedflat.topology.grouping.grouping import Grouping

SERVER = "server"
"""The slot of a server that has one model, and the name of the model that a run reports if no shadow does."""

Asked = dict[str, list[Chain]]
"""For each slot that steps in a round: the chains that start from its model."""


@dataclass(frozen=True)
class Underway:
    """A round of a topology that does not wait for those it asks: replies come to models of earlier rounds."""

    since: Mapping[int, int]
    """Whose replies the round has, in the order in which they come, and in which round each of them was asked."""
    started: Sequence[int]
    """Who is asked in this round."""
    left: Set[int]
    """Rounds whose model somebody is still at work on when this one is done."""
    moment: float
    """When the server steps."""


class Topology(Spelled, ABC):
    """A frozen dataclass. The base class is a server with one model; only who is asked is left to say."""

    key: ClassVar[str]
    """Its name in messages."""

    @property
    def describers(self) -> tuple[Describer, ...]:
        """What every client must say of itself before round 0, such as a grouping needs in a field ``groups``:
        `Crowd.described` has it then."""
        groups = getattr(self, "groups", None)
        return groups.describers if isinstance(groups, Grouping) else ()

    @property
    def hands_on(self) -> bool:
        """Whether clients are sent what other clients have returned."""
        return False

    @property
    def mixes(self) -> bool:
        """Whether a slot's model is changed otherwise than by its own steps."""
        return False

    @property
    def centred(self) -> bool:
        """Whether there is one model that stands for all slots."""
        return True

    @property
    def waits(self) -> bool:
        """Whether a round has the replies of those who were asked in it."""
        return True

    @property
    def tells_slots(self) -> bool:
        """Whether each slot's model is a result by itself, evaluated and written beside the one that stands for all."""
        return True

    def check_before(self, crowd: Crowd) -> None:
        """Refuse clients that it cannot be made of, whatever they will say of themselves."""
        groups = getattr(self, "groups", None)
        if isinstance(groups, Grouping):
            groups.possible(crowd.sizes())

    def check(self, crowd: Crowd) -> None:
        """Refuse clients that it cannot be made of."""
        crowd.sampler.check(crowd.population, crowd.rounds)

    def slots(self, crowd: Crowd) -> Mapping[str, Sequence[int]]:
        """The server's models by name, and whose they are."""
        return {SERVER: range(crowd.population)}

    def superclients(self, crowd: Crowd) -> Sequence[Chain]:
        """Groups of clients that train one after the other and stay together, where there are any."""
        return ()

    def together(self, crowd: Crowd) -> Sequence[Chain]:
        """Groups that clients are in from the first round on: superclients, or what a field ``groups`` says."""
        groups, found = getattr(self, "groups", None), self.superclients(crowd)
        return found if found or groups is None else crowd.groups(grouping_of(self.key, groups))

    @abstractmethod
    def asked(self, crowd: Crowd, t: int) -> Asked:
        """Who is asked in round ``t``; replies are folded in this order. A slot that is left out stays as it is."""

    def underway(self, crowd: Crowd, t: int) -> Underway | None:
        """Who is at work on what in round ``t``, if it does not wait for those it asks."""
        return None

    def taken(self, now: Mail, sent: Mail, reply: Reply | Sheaf) -> Reply | Sheaf:
        """What the server takes a reply for that answers ``sent``, when ``now`` is what it sends."""
        return reply

    def merge(
        self, crowd: Crowd, t: int, models: Mapping[str, Model], weights: Mapping[str, float]
    ) -> dict[str, Model]:
        """What becomes of the models after round ``t``; ``weights`` are those of the replies that each slot had."""
        return dict(models)

    def centre(self, crowd: Crowd, done: int, models: Mapping[str, Model]) -> Model | None:
        """The model that stands for all slots when ``done`` rounds are done: it is reported, and shadows are averages
        of it."""
        return next(iter(models.values())) if self.centred else None

    def meets(self, crowd: Crowd, t: int) -> bool:
        """Whether slots that step from round ``t + 1`` on must wait until all have done round ``t``."""
        return True

    def ends(self, crowd: Crowd, t: int) -> float | None:
        """When round ``t`` ends, in simulated seconds since the start, for a topology that keeps time itself because
        its rounds overlap; None: a round begins when the one before it has ended, and waits for its replies."""
        return None

    def notes(self, crowd: Crowd, t: int) -> dict[str, float]:
        """Measurements of its own in round ``t``, written with each evaluation."""
        return {}

    def route(self, crowd: Crowd, data: ClientData) -> Tensor | None:
        """For each test example the place of the slot whose model it is for; None if all models are for everybody."""
        return None

    def smallest(self, crowd: Crowd) -> int:
        """The fewest replies that a slot has in a round in which it steps."""
        return crowd.sampler.smallest(crowd.rounds)

    def at_once(self, crowd: Crowd) -> int:
        """How many visits can be made at the same time, about."""
        return self.smallest(crowd)

    def visits(self, crowd: Crowd) -> int:
        """How many visits the run makes, about."""
        return crowd.sampler.visits(crowd.rounds)

    def refuse(self, method: Method, pieces: Sequence[Piece]) -> None:
        """Refuse a method that means nothing here; ``pieces`` are all of a client's."""
        if method.pooled:
            raise SettingError(
                f"centralised training brings all data to one place, so there is nobody for {self} to connect. Leave "
                "one of them out."
            )
        for piece in pieces:
            self._refuse_piece(piece)
        for one in method.hearing:
            if self.hands_on:
                raise SettingError(
                    f"{one} wants what every client has made, but with {self} only the last client of a chain "
                    "replies. Leave one of them out."
                )
        for shadow in method.shadows:
            if not self.centred:
                raise SettingError(
                    f"{shadow} is an average of the server's model, but with {self} there is no one model that stands "
                    "for all. Leave one of them out, or share a part of the model."
                )

    def _refuse_piece(self, piece: Piece) -> None:
        why = ""
        if self.hands_on and piece.keeps:
            why = "remembers at each client how it stood to the server's model, which a client in a chain is not sent"
        elif self.hands_on and piece.up:
            why = "sends vectors to the server with every reply, but only the last client of a chain replies"
        elif self.hands_on and (piece.ordered or piece.anchored):
            why = "must be sent the server's own model, but in a chain a client is sent that of the client before it"
        elif self.mixes and piece.keeps:
            why = "remembers at each client how it stood to one sequence of models, which breaks off when models meet"
        if why:
            raise SettingError(f"{piece} means nothing with {self}: it {why}. Leave one of them out.")
