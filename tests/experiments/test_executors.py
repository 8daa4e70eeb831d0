"""Where requests happen changes nothing; what goes wrong there arrives here."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from experiments.small import EVERYTHING, SIZES, ended, experiment, timeless, wait_for
from fedflat.client.piece import ClientState
from fedflat.client.training import ClientJob, Request
from fedflat.core.failures import ClientFailure
from fedflat.core.messages import Broadcast
from fedflat.data.federation import Federation
from fedflat.errors import FedflatError, SettingError
from fedflat.execution.client_pool import ClientPool, Source
from fedflat.execution.in_process import InProcess
from fedflat.execution.pickling import dumps, loads, opened
from fedflat.execution.worker import answer
from fedflat.execution.workers import WorkerPool, Workers
from fedflat.experiments.prepare import prepare
from fedflat.experiments.progress import Progress
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.train import train
from fedflat.server.client_selection import ClientSampler


def in_worker() -> bool:
    return multiprocessing.parent_process() is not None


class Troubled(nn.Module):
    """A linear model that does ``trouble`` when it is trained in a worker."""

    def __init__(self, trouble: str = "") -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.trouble = trouble

    def forward(self, x: Tensor) -> Tensor:
        if in_worker() and self.training:
            getattr(self, self.trouble)(x)
        return self.fc(x)

    def end(self, x: Tensor) -> None:
        os._exit(9)

    def crash(self, x: Tensor) -> None:
        signal.raise_signal(signal.SIGSEGV)

    def kill(self, x: Tensor) -> None:
        signal.raise_signal(signal.SIGKILL)

    def fail(self, x: Tensor) -> None:
        raise ZeroDivisionError("the model does not like this batch")

    def delay(self, x: Tensor) -> None:
        """Differently for every client."""
        time.sleep(0.005 * (0.5 + float(x.sum()) % 1))


class OddError(Exception):
    """Can be pickled, but not read again."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"odd {a} {b}")


@dataclass
class Kept:
    """An executor whose client pool is there already."""

    pool: ClientPool

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        yield self.pool


def requests_of(setup: RunSetup) -> list[Request]:
    start = setup.job.learner.initial()
    broadcast = Broadcast(0, start.params, start.buffers, 0.1)
    return [Request(client, broadcast, {}, f"0/1/{client}") for client in (3, 0, 4, 2, 1)]


@pytest.mark.usefixtures("warm_processes")
def test_the_same_bits_in_the_same_order() -> None:
    """Five clients a round for one or three workers, some of whom take three times as long as
    others."""
    exp = experiment(
        EVERYTHING, sampler=ClientSampler(clients=5), rounds=3, model=Troubled("delay")
    )
    setup = prepare(exp)
    here = train(setup, executor=InProcess(threads=1))
    for n in (1, 3):
        with Workers(n).open(setup.job, setup.fed, setup.source) as pool:
            replies = [reply for reply, _ in pool.run(requests_of(setup))]
            assert [reply.client for reply in replies] == [3, 0, 4, 2, 1]
            assert [reply.examples for reply in replies] == [SIZES[k] for k in (3, 0, 4, 2, 1)]
            there = train(setup, executor=Kept(pool))
        assert torch.equal(here.model.params, there.model.params), n
        assert timeless(here.rows) == timeless(there.rows), n


def test_an_exception_in_a_worker_arrives_with_its_notes() -> None:
    exp = experiment(model=Troubled("fail"), sampler=ClientSampler(cohorts=[[4]] * 6))
    with pytest.raises(ZeroDivisionError, match="does not like this batch") as caught:
        train(exp, executor=Workers(1))
    notes = "\n".join(caught.value.__notes__)
    assert "(in round 1, client 4" in notes
    assert "in fail" in notes  # the traceback over there
    assert not multiprocessing.active_children()


def test_an_exception_that_cannot_be_pickled_is_replaced() -> None:
    ours, theirs = multiprocessing.Pipe()
    odd = OddError(1, 2)
    odd.add_note("(in round 0, client 4)")
    answer(theirs, odd)
    with pytest.raises(RuntimeError, match="OddError: odd 1 2") as caught:
        opened(ours.recv_bytes())
    assert caught.value.__notes__[0] == "(in round 0, client 4)"
    ours.close()
    theirs.close()


KILLED = "A worker process died unexpectedly, probably out of memory"


@pytest.mark.usefixtures("warm_processes")
@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ("kill", f"{KILLED}. Use fewer workers or a smaller batch. The run can be resumed."),
        ("crash", "A worker process was killed by SIGSEGV. The run can be resumed."),
        (
            "end",
            "A worker process ended with exit code 9; its error output, if any, is above. The run can be resumed.",
        ),
    ],
)
def test_a_worker_that_dies_at_work(
    trouble: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the reason. No new worker is started for a run that has failed."""
    started: list[int] = []
    fill = WorkerPool.fill
    monkeypatch.setattr(
        WorkerPool, "fill", lambda pool: (started.append(pool.n - len(pool.workers)), fill(pool))
    )
    with pytest.raises(FedflatError) as caught:
        train(experiment(model=Troubled(trouble)), executor=Workers(1))
    assert str(caught.value) == message
    assert [n for n in started if n] == [1]
    assert not multiprocessing.active_children()


def test_a_worker_that_cannot_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers get the parent's `sys.path`, here with a damaged torch in front."""
    (tmp_path / "torch.py").write_text("raise ImportError('libdamaged.so is missing')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FedflatError) as caught:
        train(experiment(), executor=Workers(2))
    why = "A worker process failed (ImportError: libdamaged.so is missing). The run can be resumed."
    assert str(caught.value) == why
    assert not multiprocessing.active_children()


def no_room() -> None:
    raise MemoryError("no room for this")


class Large:
    """A value that cannot be read in a worker."""

    def __reduce__(self) -> Any:
        return no_room, ()


@pytest.mark.slow
def test_a_message_that_cannot_be_read_ends_the_worker_and_a_new_one_is_started() -> None:
    setup = prepare(experiment())
    first, second, *_ = requests_of(setup)
    bad = replace(second, state={"large": {"one": Large()}})
    with Workers(1).open(setup.job, setup.fed, setup.source) as pool:
        [missing] = pool.run([bad])
        assert (
            not multiprocessing.active_children()
        )  # no request is left: no worker is needed before the next exchange
        missing, (reply, _) = pool.run([bad, first])
    assert isinstance(missing, ClientFailure)
    assert missing.detail == "A worker process failed (MemoryError: no room for this)"
    assert reply.client == first.client


@pytest.mark.usefixtures("warm_processes")
def test_a_worker_that_dies_between_two_rounds() -> None:
    """The request cannot even be sent; the error does not speak of a broken pipe."""

    def on_progress(progress: Progress) -> None:
        for process in multiprocessing.active_children():
            os.kill(process.pid, signal.SIGKILL)
            process.join()

    with pytest.raises(FedflatError, match=KILLED):
        train(experiment(), executor=Workers(1), on_progress=on_progress)


def test_what_cannot_be_sent_is_refused() -> None:
    exp = experiment(loss=lambda output, y: cross_entropy(output, y))
    train(exp, executor=InProcess())
    with pytest.raises(
        SettingError, match=r"cannot be sent to worker processes: .*lambda.*or run without workers"
    ):
        train(exp, executor=Workers(1))


@pytest.mark.parametrize(
    "wrong", [{"workers": 0}, {"workers": -1}, {"workers": 1.5}, {"workers": 1, "threads": 0}]
)
def test_wrong_numbers_of_workers(wrong: dict[str, Any]) -> None:
    with pytest.raises(
        SettingError,
        match=r"workers: (workers|threads) must be a whole number of at least 1, found",
    ):
        Workers(**wrong)


def test_threads_are_set_and_given_back() -> None:
    before = torch.get_num_threads()
    setup = prepare(experiment())
    with InProcess(threads=before + 1).open(setup.job, setup.fed, setup.source):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


@dataclass
class Parcel:
    tensor: Tensor
    note: str


def test_what_travels_comes_out_as_it_went_in() -> None:
    large = torch.randn(1000, 100)
    memory: ClientState = {"dual": {"sigma": large[3], "turned": large[:2].T}}
    tensors = [
        torch.tensor(3.5),
        torch.zeros(0),
        torch.zeros(2, 0, 3),
        large[::7],
        torch.tensor([True]),
        large[5:6, 2],
    ]
    sent = (tensors, memory, Parcel(large[0].double(), "x"), None)
    again, remembered, packed, nothing = loads(dumps(sent))
    for before, after in zip(tensors, again, strict=True):
        assert after.dtype == before.dtype
        assert after.shape == before.shape
        assert torch.equal(after, before)
    assert torch.equal(remembered["dual"]["sigma"], large[3])
    assert torch.equal(remembered["dual"]["turned"], large[:2].T)
    assert torch.equal(packed.tensor, large[0].double())
    assert packed.note == "x"
    assert nothing is None
    again[3].add_(1)  # what came belongs to whom it came to


def test_a_view_travels_without_the_rest() -> None:
    large = torch.randn(1000, 100)
    for view in (large[3], large[:, 3], large[10:20, 5:7]):
        assert len(dumps(view)) < view.numel() * 4 + 400


def test_a_parameter_travels() -> None:
    module = nn.Linear(2, 2)
    again = loads(dumps(module))
    assert torch.equal(again.weight, module.weight)
    assert again.weight.requires_grad


@pytest.mark.usefixtures("warm_processes")
def test_an_exchange_that_is_given_up_leaves_nothing_for_the_next() -> None:
    """Broken off after one reply, or by an error: what others had been asked must not be taken for
    new answers."""
    setup = prepare(experiment(EVERYTHING))
    first = requests_of(setup)
    broadcast = replace(first[0].broadcast, round=5, params=first[0].broadcast.params + 1)
    second = [Request(client, broadcast, {}, f"0/1/{client}") for client in range(5)]
    with InProcess(threads=1).open(setup.job, setup.fed, setup.source) as pool:
        expected = [reply.delta for reply, _ in pool.run(second)]
    with Workers(2).open(setup.job, setup.fed, setup.source) as pool:
        for _ in range(2):
            requests = pool.run(first)
            next(requests)
            requests.close()
            found = [reply for reply, _ in pool.run(second)]
            assert [reply.client for reply in found] == [0, 1, 2, 3, 4]
            assert all(map(torch.equal, (reply.delta for reply in found), expected))
        *came, missing = pool.run([*first[:3], Request(99, first[0].broadcast, {}, "0/1/99")])
        assert len(came) == 3
        assert (missing.client, missing.request, missing.reason) == (99, "0/1/99", "crashed")
        assert isinstance(missing.error, IndexError)
        assert all(map(torch.equal, (reply.delta for reply, _ in pool.run(second)), expected))


class Stuck(Troubled):
    """A model that is at work for long, and says so in a file named after its process."""

    def forward(self, x: Tensor) -> Tensor:
        if in_worker() and self.training:
            (Path(os.environ["STUCK"]) / str(os.getpid())).touch()
            time.sleep(3600)
        return self.fc(x)


@pytest.mark.slow
def test_workers_end_with_who_started_them(tmp_path: Path) -> None:
    """kill -9 of the parent while each worker is in the middle of a request."""
    code = (
        "from fedflat.execution.workers import Workers\nfrom fedflat.experiments.train import train\n"
        "from experiments.small import experiment\nfrom experiments.test_executors import Stuck\n"
        "train(experiment(model=Stuck()), executor=Workers(2))"
    )
    environment = {**os.environ, "STUCK": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2, "two workers at work")
    family = [int(file.name) for file in tmp_path.iterdir()]
    parent.kill()
    parent.wait()
    ended(*family)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool])
def test_a_tensor_goes_through_the_pipe(dtype: torch.dtype) -> None:
    sent = torch.tensor([0.0, 1.0, -3.5, 1e-30]).to(dtype)
    again = loads(dumps(sent))
    assert again.dtype == dtype
    assert torch.equal(again, sent)
