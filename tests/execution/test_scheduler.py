"""The scheduler: how far ahead it submits, in which order outcomes come, and what failures do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from fedflat.client.training import Request
from fedflat.core.failures import LATE, ClientFailure
from fedflat.core.messages import Broadcast, Reply, ReplyBatch
from fedflat.execution.client_pool import ClientPool
from fedflat.execution.scheduler import PoolOutcome, run_chains

BROADCAST = Broadcast(0, torch.zeros(1), torch.zeros(0), 0.1)


def request(client: int, number: int = 0) -> Request:
    return Request(client, BROADCAST, {}, f"0/1/{client}/{number}")


def replied(one: Request) -> PoolOutcome:
    none = torch.zeros(0)
    return Reply(one.client, none, none, 1, 1, {}, {}, request=one.id), {}


class FakePool(ClientPool):
    """Ends the request that ``choose`` takes of those it works on, one in each `collect`."""

    def __init__(
        self,
        capacity: int,
        choose: Callable[[int], int] = lambda n: n - 1,
        failing: Sequence[int] = (),
        lost: Sequence[int] = (),
    ) -> None:
        self.n, self.choose, self.failing, self.lost = capacity, choose, failing, lost
        self.running: list[Request] = []
        self.log: list[str] = []
        self.most = 0

    @property
    def capacity(self) -> int:
        return self.n

    def begin(self) -> None:
        self.running = []
        self.log.append("begin")

    def submit(self, request: Request) -> None:
        self.log.append(f"submit {request.client}")
        if request.client not in self.lost:
            self.running.append(request)
        self.most = max(self.most, len(self.running))

    def collect(self) -> Sequence[PoolOutcome]:
        if not self.running:
            return []
        done = self.running.pop(self.choose(len(self.running)))
        if done.client in self.failing:
            return [ClientFailure(done.client, done.id, "crashed")]
        return [replied(done)]

    def recover(self) -> None:
        self.log.append("recover")


def _client(outcome: PoolOutcome) -> int:
    if isinstance(outcome, ClientFailure):
        return outcome.client
    assert isinstance(outcome[0], Reply)
    return outcome[0].client


@pytest.mark.parametrize("choose", [lambda n: n - 1, lambda n: 0, lambda n: n // 2])
@pytest.mark.parametrize("capacity", [1, 2, 7])
def test_outcomes_come_in_the_order_of_requests(
    capacity: int, choose: Callable[[int], int]
) -> None:
    pool = FakePool(capacity, choose)
    found = [_client(outcome) for outcome in pool.run([request(k) for k in range(20)])]
    assert found == list(range(20))
    assert pool.most == min(20, 2 * capacity)


def test_no_request_is_taken_before_there_is_room() -> None:
    pool = FakePool(2)
    outcomes = pool.run([request(k) for k in range(9)])
    next(outcomes)
    assert pool.log == ["begin", *(f"submit {k}" for k in range(4))]


def test_a_pool_recovers_only_if_the_caller_goes_on() -> None:
    pool = FakePool(1, failing=[1])
    outcomes = pool.run([request(k) for k in range(3)])
    next(outcomes), next(outcomes)
    assert "recover" not in pool.log
    next(outcomes)
    assert pool.log.count("recover") == 1


def test_requests_that_a_pool_has_lost_are_too_late() -> None:
    first, second, third = FakePool(2, lost=[1]).run([request(k) for k in range(3)])
    assert (_client(first), _client(third)) == (0, 2)
    assert isinstance(second, ClientFailure)
    assert (second.client, second.request, second.reason) == (1, "0/1/1/0", LATE)


def test_two_requests_with_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="two requests have the id '0/1/3/0'"):
        list(FakePool(2).run([request(3), request(3)]))


class BatchPool(FakePool):
    """Ends all requests of even clients together."""

    def collect(self) -> Sequence[PoolOutcome]:
        even = [one for one in self.running if one.client % 2 == 0]
        if not even:
            return super().collect()
        self.running = [one for one in self.running if one not in even]
        none = torch.zeros(len(even), 0)
        clients, ids = [one.client for one in even], [one.id for one in even]
        return [(ReplyBatch(clients, none, none, 1, 1, {}, {}, requests=ids), {})]


def test_a_batch_comes_at_the_place_of_its_first_request() -> None:
    found = [
        outcome[0].clients if isinstance(outcome[0], ReplyBatch) else outcome[0].client
        for outcome in BatchPool(3).run([request(k) for k in (1, 0, 3, 2, 5)])
    ]
    assert found == [1, [0, 2], 3, 5]


LENGTHS = (1, 4, 2)


@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_chains_with_most_work_left_go_first(capacity: int) -> None:
    pool, requests = FakePool(capacity, lambda n: 0), [0, 0, 0]

    def then(at: int, outcome: PoolOutcome) -> Request | None:
        requests[at] += 1
        return request(at, requests[at]) if requests[at] < LENGTHS[at] else None

    def left(at: int, made: int) -> float:
        return LENGTHS[at] - made

    last = list(run_chains(pool, [request(k) for k in range(3)], then, left))
    assert [_client(outcome) for outcome in last] == [0, 1, 2]
    assert requests == list(LENGTHS)
    assert pool.most == min(3, capacity)
    order = [int(entry[-1]) for entry in pool.log if entry.startswith("submit")]
    if capacity == 1:
        assert order == [1, 1, 2, 1, 0, 1, 2]
