"""Which requests a pool gets, and when: the same rules for every pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from fedflat.client.piece import ClientState
from fedflat.client.training import Request
from fedflat.core.failures import LATE, ClientFailure
from fedflat.core.messages import Reply, ReplyBatch

Answered = tuple[Reply | ReplyBatch, ClientState]
"""A reply and the client's new state; or those of several clients, in rows."""
PoolOutcome = Answered | ClientFailure
"""How a request ends."""
Then = Callable[[int, PoolOutcome], Request | None]
"""Gets the place of a chain and the outcome of its last request; returns its next request, if it
has one."""
WorkLeft = Callable[[int, int], float]
"""Gets the place of a chain and how many of its requests are done; returns the work left in it."""


class Submits(Protocol):
    """What the scheduler needs of a pool: see `fedflat.execution.client_pool.ClientPool`."""

    @property
    def capacity(self) -> int: ...

    def begin(self) -> None: ...

    def accepts(self, ahead: int) -> bool: ...

    def submit(self, request: Request) -> None: ...

    def collect(self) -> Sequence[PoolOutcome]: ...

    def recover(self) -> None: ...


def request_ids(outcome: PoolOutcome) -> Sequence[str]:
    """The ids of the requests that an outcome belongs to: several for a `ReplyBatch`."""
    if isinstance(outcome, ClientFailure):
        return (outcome.request,)
    reply = outcome[0]
    return reply.requests if isinstance(reply, ReplyBatch) else (reply.request,)


def run_requests(pool: Submits, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
    """Yield the outcomes of all requests, in the order of the requests.

    Requests are submitted ahead of the outcomes that were yielded, as far as the pool accepts them.
    A `ReplyBatch` comes at the place of the first of its requests. After a failure the pool may
    replace what it has lost, once the caller goes on.
    """
    pool.begin()
    running = _Running()
    done = dict[int, PoolOutcome | None]()
    count, sent, coming = len(requests), 0, iter(requests)
    submit, accepts = running.submit, pool.accepts
    failed = False
    for place in range(count):
        while True:
            while sent < count and (sent == place or accepts(sent - place)):
                submit(pool, sent, next(coming))
                sent += 1
            if failed:
                pool.recover()
                failed = False
            if place in done:
                break
            for places, outcome in running.collect(pool):
                done |= dict.fromkeys(places)
                done[min(places)] = outcome
        found = done.pop(place)
        if found is not None:
            failed = isinstance(found, ClientFailure)
            yield found


def run_chains(
    pool: Submits, requests: Sequence[Request], then: Then, work_left: WorkLeft
) -> Iterator[PoolOutcome]:
    """Yield the last outcome of each chain, in the order of their first requests.

    Each chain goes on as soon as its own request is done. The pool gets as many requests as it can
    work on at once; chains with most work left go first. If that is another chain than the one
    whose request is done, its request is submitted before ``then`` is called.
    """
    pool.begin()
    running = _Running()
    waiting = dict(enumerate(requests))
    made = [0] * len(requests)
    done = dict[int, PoolOutcome]()

    def submit(least: float = 0.0) -> None:
        """Submit requests of chains with at least so much work left."""
        while waiting and len(running) < pool.capacity:
            most, at = max((work_left(one, made[one]), -one) for one in waiting)
            if most < least:
                return
            running.submit(pool, -at, waiting.pop(-at))

    for place in range(len(requests)):
        while place not in done:
            submit()
            for [at], outcome in running.collect(pool):
                made[at] += 1
                submit(work_left(at, made[at]))
                following = then(at, outcome)
                if following is None:
                    done[at] = outcome
                else:
                    waiting[at] = following
                if isinstance(outcome, ClientFailure) and waiting:
                    pool.recover()
        yield done.pop(place)


class _Running:
    """The requests that a pool works on, and their places."""

    def __init__(self) -> None:
        self.requests: dict[str, tuple[int, Request]] = {}

    def __len__(self) -> int:
        return len(self.requests)

    def submit(self, pool: Submits, place: int, request: Request) -> None:
        if request.id in self.requests:
            raise ValueError(
                f"two requests have the id {request.id!r}. Give each request an id of its own."
            )
        self.requests[request.id] = place, request
        pool.submit(request)

    def collect(self, pool: Submits) -> Iterator[tuple[list[int], PoolOutcome]]:
        """Outcomes that have come, with the places of their requests; others are dropped.

        A pool that has no outcome to wait for has lost the requests: they fail as too late.
        """
        outcomes = pool.collect()
        if not outcomes:
            outcomes = [
                ClientFailure(request.client, id, LATE, "no answer came")
                for id, (_, request) in self.requests.items()
            ]
        for outcome in outcomes:
            ids = [id for id in request_ids(outcome) if id in self.requests]
            if ids:
                yield [self.requests.pop(id)[0] for id in ids], outcome
