"""The sampler measures for as long as the code runs, keeps no object alive, and stops on
request."""

from __future__ import annotations

import pickle
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest

from experiments.small import PATIENCE
from fedflat.execution.profiling.sampler import Samples, StackFrame, StackSampler


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) == before


def loop(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def until_seen(sampler: StackSampler) -> None:
    """However late the first looks come."""
    end = time.perf_counter() + PATIENCE
    while time.perf_counter() < end and sum(sampler._counts.values()) < 3:
        loop(0.01)


Clock = defaultdict[str, float]


def much(work: Callable[[float], None], clock: Clock) -> None:
    begun = time.perf_counter()
    work(0.015)
    clock["much"] += time.perf_counter() - begun


def little(work: Callable[[float], None], clock: Clock) -> None:
    begun = time.perf_counter()
    work(0.005)
    clock["little"] += time.perf_counter() - begun


def inside(samples: Samples, name: str) -> float:
    return sum(
        seen.seconds
        for stack, seen in samples.stacks.items()
        if StackFrame(__name__, name) in stack
    )


@pytest.mark.slow  # needs a quiet machine: a look that waits for a core comes when others have run
@pytest.mark.parametrize("work", [loop, time.sleep])
def test_shares(work: Callable[[float], None]) -> None:
    """Three times as long in one function as in the other, as clocks in them saw it too, in turns
    that are as long as the pause between looks."""
    clock: Clock = defaultdict(float)
    begun = time.perf_counter()
    with StackSampler() as sampler:
        for _ in range(50):
            much(work, clock)
            little(work, clock)
    took = time.perf_counter() - begun
    samples = sampler.samples()
    found, true = inside(samples, "much"), clock["much"] / sum(clock.values())
    assert found / (found + inside(samples, "little")) == pytest.approx(true, abs=0.25)
    assert took / 2 < samples.seconds <= took
    assert 0 < samples.cost < took
    assert samples.count == sum(seen.times for seen in samples.stacks.values()) > 2


def test_a_stack_goes_from_the_outside_in() -> None:
    with StackSampler() as sampler:
        much(lambda seconds: until_seen(sampler), defaultdict(float))
    caller, lambda_, called = (
        StackFrame(__name__, name)
        for name in ("much", f"{_here()}.<locals>.<lambda>", "until_seen")
    )
    deep = [stack for stack in sampler.samples().stacks if called in stack]
    assert deep
    for stack in deep:
        assert stack.index(caller) < stack.index(lambda_) < stack.index(called)


def _here() -> str:
    return test_a_stack_goes_from_the_outside_in.__qualname__


def test_only_the_thread_that_entered_is_looked_at() -> None:
    over = threading.Event()

    def elsewhere() -> None:
        over.wait()

    other = threading.Thread(target=elsewhere)
    other.start()
    with StackSampler() as sampler:
        until_seen(sampler)
    over.set()
    other.join()
    seen = {frame.name.rpartition(".")[2] for stack in sampler.samples().stacks for frame in stack}
    assert "until_seen" in seen
    assert "elsewhere" not in seen


def test_an_error_ends_it_too() -> None:
    def fail() -> None:
        until_seen(sampler)
        raise ZeroDivisionError

    sampler = StackSampler()
    with pytest.raises(ZeroDivisionError), sampler:
        fail()
    assert inside(sampler.samples(), "until_seen") > 0


class Heavy:
    """Something one would not want to be kept."""


def test_nothing_is_kept_alive() -> None:
    def work() -> weakref.ref[Heavy]:
        heavy = Heavy()
        until_seen(sampler)
        return weakref.ref(heavy)

    with StackSampler() as sampler:
        gone = work()
    assert sampler.samples().count
    assert gone() is None


def test_dear_looks_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that costs 3 ms of computing may come once in 0.3 s, at any moment of it."""

    def dear(self: StackSampler) -> tuple[int, ...]:
        end = time.thread_time() + 0.003
        while time.thread_time() < end:
            pass
        return ()

    monkeypatch.setattr(StackSampler, "_look", dear)
    begun = time.perf_counter()
    with StackSampler() as sampler:
        until_seen(sampler)
    took = time.perf_counter() - begun
    assert 3 <= sampler.samples().count <= 1 + took / 0.3 + 1


def test_samples_travel() -> None:
    with StackSampler() as sampler:
        loop(0.03)
    samples = sampler.samples()
    assert pickle.loads(pickle.dumps(samples)) == samples


def test_no_look_at_all() -> None:
    assert Samples({}, 0.0).count == Samples({}, 0.0).seconds == 0
