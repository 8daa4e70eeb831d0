"""Schedule of an asynchronous server: when which reply arrives. It does not train anything.

A fixed number of clients train at any time. First all replies that arrive at a moment are
collected, in the order in which their clients were selected. As soon as the buffer is full the
server steps. Then other clients replace those that are done and start from the server's current
model. A client is not selected again while it trains or its reply is in the buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import chain, count, islice

from fedflat.errors import SettingError
from fedflat.topologies.topology import ClientPopulation, InFlight

Seconds = Callable[[int, int], float]
"""Simulated seconds from selecting a client in a round to the end of its reply."""


@dataclass
class AsyncScheduler:
    """A server with ``concurrency`` clients in training that steps after ``buffer`` replies."""

    population: ClientPopulation
    concurrency: int
    buffer: int
    seconds: Seconds

    def __post_init__(self) -> None:
        self._given = chain.from_iterable(self.population.sampler.cohorts or ())

    def steps(self) -> Iterator[InFlight]:
        """Yield the state of the schedule at each server step."""
        # Heap of (time of the reply, order of selection, client, round of selection).
        at_work: list[tuple[float, int, int, int]] = []
        since: dict[int, int] = {}
        started: list[int] = []
        now, t, calls = 0.0, 0, 0
        tickets = count()
        while True:
            busy = since.keys() | {client for *_, client, _ in at_work}
            for client in self._next_clients(t, calls, self.concurrency - len(at_work), busy):
                heappush(at_work, (now + self.seconds(client, t), next(tickets), client, t))
                started.append(client)
            calls += 1
            if not at_work:
                raise SettingError(
                    f"too few clients were given as cohorts: in round {t + 1} no client is left at "
                    f"work, and {len(since)} of {self.buffer} replies have arrived. Give more."
                )
            now = at_work[0][0]
            while at_work and at_work[0][0] == now:
                *_, client, round_sent = heappop(at_work)
                since[client] = round_sent
                if len(since) == self.buffer:
                    left = frozenset(round_sent for *_, round_sent in at_work)
                    yield InFlight(since, tuple(started), left, now)
                    since, started, t, calls = {}, [], t + 1, 0

    def _next_clients(self, t: int, call: int, wanted: int, busy: Set[int]) -> list[int]:
        """The clients to start in round ``t`` after ``call`` calls: given or random ones."""
        if self.population.sampler.cohorts is not None:
            clients = list(islice(self._given, wanted))
            for i, client in enumerate(clients):
                if client in busy or client in clients[:i]:
                    raise SettingError(
                        f"the given cohorts select client {client} again in round {t + 1}, while it "
                        "is still at work or its reply waits. Give another order, or fewer clients at "
                        "work."
                    )
            return clients
        free = self.population.n_clients - len(busy)
        if min(wanted, free) == 0:
            return []
        busy_in_order = sorted(busy)

        def sizes() -> list[int]:
            return [
                size for client, size in enumerate(self.population.sizes()) if client not in busy
            ]

        sampler = replace(self.population.sampler, clients=min(wanted, free))
        return [
            _free_client(rank, busy_in_order)
            for rank in sampler.draw(t, free, self.population.seed, sizes, call)
        ]


def _free_client(rank: int, busy: list[int]) -> int:
    """The client of that rank among those that are not in ``busy``.

    >>> [_free_client(rank, [1, 2, 5]) for rank in range(4)]
    [0, 3, 4, 6]
    """
    for client in busy:
        rank += client <= rank
    return rank
