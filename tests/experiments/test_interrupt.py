"""Ctrl-C at a bad moment waits."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import torch

from experiments.small import EVERYTHING, begin, experiment, final, go_on, rows, timeless
from fedflat.data.sets.in_memory import clients_of
from fedflat.execution.in_process import InProcess
from fedflat.execution.interrupt import Terminated, signals_as_ctrl_c, status_of
from fedflat.experiments.callbacks import RoundEnd
from fedflat.experiments.progress import Progress
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.experiments.run_folder.run_folder import DiskRunFolder
from fedflat.experiments.train import train


@pytest.fixture(autouse=True)
def default_handlers() -> Iterator[None]:
    """Those of a process started from a terminal, whatever started this one."""
    defaults = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in defaults.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def handlers() -> list[object]:
    return [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]


def test_an_interrupt_is_raised_after_the_block() -> None:
    done = []

    def work() -> None:
        with signals_as_ctrl_c() as signals:
            signals.take_over()
            with signals.delayed():
                press()
                press()
                done.append(1)
            done.append(2)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1]
    with pytest.raises(KeyboardInterrupt):  # and now at once again
        press()


def test_handlers_are_set_and_restored() -> None:
    before = handlers()
    with signals_as_ctrl_c() as signals:
        signals.take_over()
        assert not set(map(id, handlers())) & set(map(id, before))
    assert handlers() == before


def test_an_error_in_the_block_restores_handlers() -> None:
    before = handlers()

    def fail() -> None:
        with signals_as_ctrl_c() as signals:
            signals.take_over()
            with signals.delayed():
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert handlers() == before


def test_in_another_thread_it_is_no_business_of_ours() -> None:
    before, seen = handlers(), []

    def work() -> None:
        with signals_as_ctrl_c() as signals:
            signals.take_over()
            with signals.delayed():
                seen.append(handlers())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_run_leaves_handlers_as_they_were() -> None:
    """Also a run inside another, of which the outer one still stops at Ctrl-C."""
    before, seen = handlers(), []

    def inner(end: RoundEnd) -> None:
        outer = handlers()
        train(experiment(rounds=1), executor=InProcess(threads=1))
        seen.append(handlers() == outer)
        if end.round == 2:
            press()

    with pytest.raises(KeyboardInterrupt):
        train(experiment(rounds=3), executor=InProcess(threads=1), on_round_end=[inner])
    assert seen == [True, True]
    assert handlers() == before


def test_a_handler_that_is_set_in_the_run_waits_for_the_commit(tmp_path: Path) -> None:
    """It is called after the commit, calls the one before it, and is still set after the run."""
    seen = []

    def set_handler(end: RoundEnd) -> None:
        if end.round == 2:
            before = signal.getsignal(signal.SIGINT)

            def own(number: int, frame: object) -> None:
                seen.append(len(run_folder.rows))
                before(number, frame)

            signal.signal(signal.SIGINT, own)
            seen.append(own)

    exp = experiment(EVERYTHING)
    run_folder = Pressing.create(tmp_path / "cut", exp.texts(), {}, pause=math.inf)
    run_folder.moment = "write"
    with closing(run_folder), pytest.raises(KeyboardInterrupt):
        train(exp, run_folder=run_folder, executor=InProcess(threads=1), on_round_end=[set_handler])
    assert seen[1:] == [3]  # once, and with the row of the round
    assert signal.getsignal(signal.SIGINT) is seen[0]
    assert Store(tmp_path / "cut" / "checkpoint").rounds() == [3]


class Pressing(DiskRunFolder):
    """Ctrl-C is pressed, twice, just when something is written."""

    moment = ""

    def write(self, row) -> None:
        if self.moment == "write" and row["round"] == 3:
            press()
        super().write(row)

    def checkpoint(self, run, *, force: bool = False) -> None:
        if self.moment == "checkpoint" and run.round == 3 and not force:
            press()
        if self.moment == "last checkpoint" and force:
            press()
        super().checkpoint(run, force=force)

    def finish(self, status, models) -> None:
        if self.moment == "finish":
            press()
        super().finish(status, models)


@pytest.mark.parametrize(
    ("moment", "left"), [("write", 3), ("checkpoint", 3), ("last checkpoint", 6), ("finish", 6)]
)
def test_what_belongs_together_is_written_together(tmp_path: Path, moment: str, left: int) -> None:
    exp = experiment(EVERYTHING)
    begin(exp, tmp_path / "whole")
    run_folder = Pressing.create(tmp_path / "cut", exp.texts(), {}, pause=math.inf)
    run_folder.moment = moment
    with closing(run_folder), pytest.raises(KeyboardInterrupt):
        train(exp, run_folder=run_folder, executor=InProcess(threads=1))
    assert Store(tmp_path / "cut" / "checkpoint").rounds() == [left]
    assert [row["round"] for row in rows(tmp_path / "cut")] == list(range(1, left + 1))
    go_on(exp, tmp_path / "cut")
    assert final(tmp_path / "cut") == final(tmp_path / "whole")
    assert timeless(rows(tmp_path / "cut")) == timeless(rows(tmp_path / "whole"))


@pytest.mark.parametrize("moment", ["tuned", "last checkpoint", "finish", "killed"])
def test_the_last_word_of_a_personalised_run_is_written_once(tmp_path: Path, moment: str) -> None:
    """Every client tunes the last model, once: stopped before, while or after that is written."""
    rng = torch.Generator().manual_seed(0)
    given = [(torch.randn(8, 4, generator=rng), torch.arange(8) % 3) for _ in range(5)]
    exp = experiment(
        "fedavg() + personal()", on=clients_of(given, test=given[0], classes=3, split=0.5)
    )
    begin(exp, tmp_path / "whole")
    whole = timeless(rows(tmp_path / "whole"))
    assert [(row["round"], row.get("tuned", False)) for row in whole[-2:]] == [
        (6, False),
        (6, True),
    ]

    class Pressing(DiskRunFolder):
        def write(self, row) -> None:
            if moment == "tuned" and row.get("tuned"):
                press()
            super().write(row)

        def checkpoint(self, run, *, force: bool = False) -> None:
            if moment == "last checkpoint" and force:
                press()
            super().checkpoint(run, force=force)

        def finish(self, status, models) -> None:
            if moment == "killed":
                raise KeyboardInterrupt
            if moment == "finish":
                press()
            super().finish(status, models)

    run_folder = Pressing.create(tmp_path / "cut", exp.texts(), {}, pause=math.inf)
    with closing(run_folder), pytest.raises(KeyboardInterrupt):
        train(exp, run_folder=run_folder, executor=InProcess(threads=1))
    result = go_on(exp, tmp_path / "cut")
    assert timeless(rows(tmp_path / "cut")) == whole == timeless(result.rows)
    assert result.ledger.up == whole[-1]["up"]
    assert final(tmp_path / "cut") == final(tmp_path / "whole")


def test_a_round_that_is_broken_off_leaves_nothing_behind(tmp_path: Path) -> None:
    """Between two requests of a round: the first client has trained, and must not remember it."""
    exp = experiment(EVERYTHING)
    begin(exp, tmp_path / "whole")

    class Breaking(InProcess):
        def open(self, job, fed, source):
            inner = super().open(job, fed, source)

            class Pool:
                def __enter__(self):
                    self.pool = inner.__enter__()
                    return self

                def __exit__(self, *error: object):
                    return inner.__exit__(*error)

                def run(self, requests):
                    for place, outcome in enumerate(self.pool.run(requests)):
                        if requests[0].broadcast.round == 4 and place == 1:
                            press()
                        yield outcome

            return Pool()

    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "cut", executor=Breaking(threads=1), pause=math.inf)
    assert Store(tmp_path / "cut" / "checkpoint").rounds() == [4]
    go_on(exp, tmp_path / "cut")
    assert final(tmp_path / "cut") == final(tmp_path / "whole")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_schedulers_send_is_treated_as_ctrl_c(tmp_path: Path, number: int) -> None:
    """In the middle of a round, and once more while the last checkpoint is written."""
    exp = experiment(EVERYTHING)
    begin(exp, tmp_path / "whole")

    class Twice(DiskRunFolder):
        def checkpoint(self, run, *, force: bool = False) -> None:
            if force:
                os.kill(os.getpid(), number)
            super().checkpoint(run, force=force)

    def on_progress(progress: Progress) -> None:
        if progress.round == 4:
            os.kill(os.getpid(), number)

    run_folder = Twice.create(tmp_path / "cut", exp.texts(), {}, pause=math.inf)
    with closing(run_folder), pytest.raises(KeyboardInterrupt) as stopped:
        train(exp, run_folder=run_folder, executor=InProcess(threads=1), on_progress=on_progress)
    assert status_of(stopped.value) == 128 + number
    assert isinstance(stopped.value, SystemExit)
    assert signal.getsignal(number) is signal.SIG_DFL
    assert Store(tmp_path / "cut" / "checkpoint").rounds() == [4]
    go_on(exp, tmp_path / "cut")
    assert final(tmp_path / "cut") == final(tmp_path / "whole")


def test_a_library_that_raises_another_error_does_not_change_the_status() -> None:
    """Ray raises KeyboardInterrupt when a signal comes while it waits."""

    @signals_as_ctrl_c()
    def run() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Terminated:
            raise KeyboardInterrupt from None

    with pytest.raises(Terminated) as stopped:
        run()
    assert status_of(stopped.value) == 143


def test_an_existing_signal_handler_is_kept() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with signals_as_ctrl_c() as signals:
            signals.take_over()
            os.kill(os.getpid(), signal.SIGTERM)
            with signals.delayed():
                os.kill(os.getpid(), signal.SIGTERM)
                assert len(seen) == 1
        assert len(seen) == 2
    finally:
        signal.signal(signal.SIGTERM, before)


def test_nested_the_outer_one_catches_it() -> None:
    @signals_as_ctrl_c()
    def outer() -> None:
        with signals_as_ctrl_c():
            pass
        os.kill(os.getpid(), signal.SIGHUP)

    with pytest.raises(Terminated):
        outer()
