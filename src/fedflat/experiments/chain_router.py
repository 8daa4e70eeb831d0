"""Chains on their way: who is visited next, and what goes on to the next client of each chain.

Where visits are made at the same time, each chain goes on by itself. Where they are not, all chains
end together: in every wave each of them that is long enough has one visit, and the last wave visits
the last client of every chain, whose reply is the chain's. A star is one wave. The numbers are the
same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fedflat.core.flat import Model
from fedflat.core.messages import WEIGHT, Broadcast, Reply
from fedflat.errors import SettingError
from fedflat.topologies.population import Chain


@dataclass(frozen=True)
class ChainStep:
    """Visits that can be made at once."""

    broadcasts: dict[int, Broadcast]
    """To whom, and what."""
    last: bool
    """Whether these clients reply to the server."""


@dataclass(frozen=True)
class _Way:
    """What the clients of a chain have done so far."""

    visits: int
    model: Model
    examples: int
    """Each client's once."""
    weight: float
    """What they weigh together."""
    samples: int
    steps: int
    loss: float
    """The sum over the examples trained on."""


class ChainRouter:
    """The chains of one exchange; of waves, each must be gone through before the next one is asked
    for."""

    def __init__(
        self,
        broadcast: Broadcast,
        chains: Sequence[Chain],
        sent: Mapping[int, Broadcast] | None = None,
    ) -> None:
        """``sent`` are other mails that some chains have begun with, by their first clients."""
        self.broadcast, self.chains, self.sent = broadcast, chains, sent or {}
        self._of = {client: place for place, chain in enumerate(chains) for client in chain}
        self._ways: dict[int, _Way] = {}
        self.broken: set[int] = set()
        """Chains that nothing comes of."""
        self._visited: set[int] = set()

    @property
    def longest(self) -> int:
        """Visits along the longest chain."""
        return max(map(len, self.chains))

    def __iter__(self) -> Iterator[ChainStep]:
        for left in range(self.longest, 0, -1):
            there = [
                p
                for p, chain in enumerate(self.chains)
                if len(chain) >= left and p not in self.broken
            ]
            yield ChainStep(dict(map(self.next, there)), last=left == 1)

    def remaining(self, place: int) -> Chain:
        """Who is still to be visited along a chain."""
        way = self._ways.get(place)
        return self.chains[place][way.visits if way else 0 :]

    def next(self, place: int) -> tuple[int, Broadcast]:
        """Who is next along a chain, and its mail: the server's own to the first, to the others
        with what the one before it has returned."""
        way, chain = self._ways.get(place), self.chains[place]
        if way is None:
            return chain[0], self.sent.get(chain[0], self.broadcast)
        client, model = chain[way.visits], way.model
        visit = chain[: way.visits].count(client)
        return client, replace(
            self.broadcast,
            params=model.params,
            buffers=model.buffers,
            repeat=False,
            repetition=visit,
        )

    def starts_chain(self, client: int) -> bool:
        """Whether the client is sent the server's mail, and not what another client has
        returned."""
        return self.place(client) not in self._ways

    def place(self, client: int) -> int:
        """Which chain a client is in."""
        return self._of[client]

    def forward(self, reply: Reply) -> None:
        """A client in the middle of its chain is done."""
        if reply.extras:
            raise SettingError(
                f"the piece {next(iter(reply.extras))!r} sends something to the server with every reply, but in a "
                "chain only the last client replies. Leave the piece out, or use a star."
            )
        place = self._of[reply.client]
        before = self._ways.get(place) or _Way(
            0, Model(self.broadcast.params, self.broadcast.buffers), 0, 0.0, 0, 0, 0.0
        )
        first = 0 if reply.client in self._visited else 1
        self._visited.add(reply.client)
        self._ways[place] = _Way(
            before.visits + 1,
            Model(before.model.params - reply.delta, reply.buffers),
            before.examples + first * reply.examples,
            before.weight + first * reply.weight,
            before.samples + reply.samples,
            before.steps + reply.steps,
            before.loss + reply.samples * reply.metrics["loss"],
        )

    def chain_reply(self, reply: Reply) -> Reply:
        """The reply of a whole chain, from that of its last client: its delta is from the server's
        model."""
        if self.starts_chain(reply.client):
            return reply
        self.forward(reply)
        way = self._ways[self._of[reply.client]]
        metrics = {**reply.metrics, "loss": way.loss / way.samples}
        return replace(
            reply,
            delta=self.broadcast.params - way.model.params,
            examples=way.examples,
            samples=way.samples,
            steps=way.steps,
            metrics=metrics | ({WEIGHT: way.weight} if WEIGHT in metrics else {}),
        )

    def abort(self, client: int) -> None:
        """A client's reply cannot be used: nothing comes of its chain."""
        self.broken.add(self._of[client])
