"""The state of chains: which client is next, and which model it is sent.

All chains can be stepped so that they end together: each step has one request of every chain that
is long enough, and the last step asks the last client of every chain, whose reply is the chain's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fedflat.core.flat import Model
from fedflat.core.messages import WEIGHT, Broadcast, Reply
from fedflat.errors import SettingError
from fedflat.server.client_selection import Chain


@dataclass(frozen=True)
class ChainStep:
    """Requests that can run at the same time."""

    broadcasts: dict[int, Broadcast]
    """By client."""
    last: bool
    """Whether these clients reply to the server."""


@dataclass(frozen=True)
class _Progress:
    """What the clients of a chain have done so far."""

    trained: int
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
    """The chains of one exchange.

    All requests of a step must be done before the next step is taken from the iterator.
    """

    def __init__(self, broadcast: Broadcast, chains: Sequence[Chain]) -> None:
        self.broadcast, self.chains = broadcast, chains
        self._of = {client: place for place, chain in enumerate(chains) for client in chain}
        self._done: dict[int, _Progress] = {}
        self.broken: set[int] = set()
        """Places of chains that were broken off."""
        self._visited: set[int] = set()

    @property
    def longest(self) -> int:
        """Requests along the longest chain."""
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
        """Clients of a chain that are still to be asked."""
        done = self._done.get(place)
        return self.chains[place][done.trained if done else 0 :]

    def next(self, place: int) -> tuple[int, Broadcast]:
        """The next client of a chain and its broadcast: the server's model for the first client,
        for others the model that the client before it returned."""
        done, chain = self._done.get(place), self.chains[place]
        if done is None:
            return chain[0], self.broadcast
        client, model = chain[done.trained], done.model
        repetition = chain[: done.trained].count(client)
        return client, replace(
            self.broadcast,
            params=model.params,
            buffers=model.buffers,
            repeat=False,
            repetition=repetition,
        )

    def starts_chain(self, client: int) -> bool:
        """Whether the client is sent the server's model, not that of another client."""
        return self.place(client) not in self._done

    def place(self, client: int) -> int:
        """The place of the chain that a client is in."""
        return self._of[client]

    def forward(self, reply: Reply) -> None:
        """Take the reply of a client whose model goes to the next client."""
        if reply.extras:
            raise SettingError(
                f"the piece {next(iter(reply.extras))!r} sends something to the server with every "
                "reply, but in a chain only the last client replies. Leave the piece out, or use a "
                "star."
            )
        place = self._of[reply.client]
        before = self._done.get(place) or _Progress(
            0, Model(self.broadcast.params, self.broadcast.buffers), 0, 0.0, 0, 0, 0.0
        )
        first = 0 if reply.client in self._visited else 1
        self._visited.add(reply.client)
        self._done[place] = _Progress(
            before.trained + 1,
            Model(before.model.params - reply.delta, reply.buffers),
            before.examples + first * reply.examples,
            before.weight + first * reply.weight,
            before.samples + reply.samples,
            before.steps + reply.steps,
            before.loss + reply.samples * reply.metrics["loss"],
        )

    def chain_reply(self, reply: Reply) -> Reply:
        """The reply of a whole chain, given that of its last client.

        Its delta is relative to the server's model.
        """
        if self.starts_chain(reply.client):
            return reply
        self.forward(reply)
        done = self._done[self._of[reply.client]]
        metrics = {**reply.metrics, "loss": done.loss / done.samples}
        return replace(
            reply,
            delta=self.broadcast.params - done.model.params,
            examples=done.examples,
            samples=done.samples,
            steps=done.steps,
            metrics=metrics | ({WEIGHT: done.weight} if WEIGHT in metrics else {}),
        )

    def abort(self, client: int) -> None:
        """Break off the chain of a client that has no usable reply."""
        self.broken.add(self._of[client])
