"""When replies come to a server that does not wait for all of them: a schedule of events, and no
trained number in it.

So many clients are always at work. At any moment first all replies that come then are taken, in the
order in which their clients were asked; as soon as the buffer is full the server steps. Then others
are asked in place of those who are done, by the model that the server has by then. A client is not
asked again while it is at work or its reply is in the buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import chain, count, islice

from fedflat.errors import SettingError
from fedflat.topologies.population import ClientPopulation
from fedflat.topologies.topology import InFlight

Seconds = Callable[[int, int], float]
"""How long a client takes, from being asked in a round to the end of its reply."""


@dataclass
class AsyncScheduler:
    """A server that keeps ``concurrency`` clients at work and steps when ``buffer`` of them have
    replied."""

    population: ClientPopulation
    concurrency: int
    buffer: int
    seconds: Seconds

    def __post_init__(self) -> None:
        self._given = chain.from_iterable(self.population.sampler.cohorts or ())

    def steps(self) -> Iterator[InFlight]:
        """How things stand when the server makes each of its steps."""
        at_work: list[
            tuple[float, int, int, int]
        ] = []  # when it replies, how many were asked before it, who, since
        since, started, now, t, calls, tickets = dict[int, int](), list[int](), 0.0, 0, 0, count()
        while True:
            busy = since.keys() | {client for *_, client, _ in at_work}
            for client in self._called(t, calls, self.concurrency - len(at_work), busy):
                heappush(at_work, (now + self.seconds(client, t), next(tickets), client, t))
                started.append(client)
            calls += 1
            if not at_work:
                raise SettingError(
                    f"too few clients were given as cohorts: in round {t} nobody is left at work, and {len(since)} of "
                    f"{self.buffer} replies have come. Give more."
                )
            now = at_work[0][0]
            while at_work and at_work[0][0] == now:
                *_, client, asked = heappop(at_work)
                since[client] = asked
                if len(since) == self.buffer:
                    yield InFlight(
                        since, tuple(started), frozenset(asked for *_, asked in at_work), now
                    )
                    since, started, t, calls = {}, [], t + 1, 0

    def _called(self, t: int, call: int, places: int, busy: Set[int]) -> list[int]:
        """Who is asked in round ``t``, if so many were called before in it: the next that were
        given, or drawn."""
        if self.population.sampler.cohorts is not None:
            called = list(islice(self._given, places))
            for place, client in enumerate(called):
                if client in busy or client in called[:place]:
                    raise SettingError(
                        f"the cohorts that were given ask client {client} again in round {t}, while it is still at "
                        "work or its reply waits. Give another order, or fewer clients at work."
                    )
            return called
        free = self.population.n_clients - len(busy)
        if min(places, free) == 0:
            return []
        taken = sorted(busy)

        def sizes() -> list[int]:
            return [
                size for client, size in enumerate(self.population.sizes()) if client not in busy
            ]

        sampler = replace(self.population.sampler, clients=min(places, free))
        return [
            _counted(rank, taken)
            for rank in sampler.draw(t, free, self.population.seed, sizes, call)
        ]


def _counted(rank: int, taken: list[int]) -> int:
    """The client of that rank among those who are not taken.

    >>> [_counted(rank, [1, 2, 5]) for rank in range(4)]
    [0, 3, 4, 6]
    """
    for client in taken:
        rank += client <= rank
    return rank
