"""Loggers by name, what they receive, and one that fails."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import fedflat as ff
import fedflat.experiments.loggers.logger as logger
from experiments.small import ON, begin, experiment, final, rows, stop_at, timeless
from fedflat.cli import main
from fedflat.errors import SettingError, SpellingError
from fedflat.execution.in_process import InProcess
from fedflat.experiments.loggers.logger import (
    LoggedRunFolder,
    Logger,
    check_installed,
    loggers_of,
    numbers,
    with_loggers,
)
from fedflat.experiments.recording import recording_callback
from fedflat.experiments.run_folder.record import RunRecord
from fedflat.experiments.run_folder.run_folder import DiskRunFolder, RunFolder
from fedflat.experiments.study import Reporter, resume
from fedflat.experiments.train import train


class Listener(Logger):
    """A logger that keeps what it receives."""

    folder = "listener"

    def __init__(self) -> None:
        self.received: list[tuple[Any, ...]] = []

    def begin(self, folder: Path, record: RunRecord, done: int) -> None:
        self.received.append(("begin", record.experiment.method, done))

    def row(self, round: int, numbers: Mapping[str, float]) -> None:
        self.received.append(("row", round, numbers))

    def end(self, status: str) -> None:
        self.received.append(("end", status))


class Failing(Listener):
    """A logger that fails at the third row."""

    def row(self, round: int, numbers: Mapping[str, float]) -> None:
        super().row(round, numbers)
        if round == 3:
            raise OSError("no space left")


class Unopened(Listener):
    """A logger that cannot begin."""

    def begin(self, folder: Path, record: RunRecord, done: int) -> None:
        raise OSError("no such server")


@pytest.fixture
def callback() -> Listener:
    return Listener()


def follow(
    folder: Path,
    logger: Logger,
    *,
    again: bool = False,
    stop: int | None = None,
    messages: list[str] | None = None,
) -> None:
    exp = experiment("fedgloss(rho_s=0.05, rho_l=0.05)")
    print_line = (messages if messages is not None else []).append
    made = (
        DiskRunFolder.open(folder, print_line=print_line)
        if again
        else DiskRunFolder.create(folder, exp.texts(), {}, print_line=print_line)
    )
    with closing(LoggedRunFolder(made, [logger])) as run_folder:
        train(exp, run_folder=run_folder, executor=InProcess(threads=1), on_progress=stop_at(stop))


def test_what_callbacks_receive(tmp_path: Path, callback: Listener) -> None:
    follow(tmp_path / "run", callback)
    first, *between, last = callback.received
    assert first == ("begin", "fedgloss(rho_s=0.05, rho_l=0.05)", 0)
    assert last == ("end", "done")
    assert between == [("row", row["round"], numbers(row)) for row in rows(tmp_path / "run")]
    assert len(between) == 6


def test_recorded_values_reach_callbacks(tmp_path: Path, callback: Listener) -> None:
    exp = experiment()
    with closing(
        LoggedRunFolder(DiskRunFolder.create(tmp_path / "run", exp.texts(), {}), [callback])
    ) as run_folder:
        train(
            exp,
            run_folder=run_folder,
            executor=InProcess(threads=1),
            callbacks=recording_callback("norms,classes"),
        )
    received = [messages for _, round, messages in callback.received[1:-1] if round == 6]
    assert set(received[0]) == {"norms", "classes/0", "classes/1", "classes/2"}
    assert "accuracy" in received[1]
    assert len((tmp_path / "run" / "recorded.jsonl").read_text().splitlines()) == 6


def test_stopped_and_going_on(tmp_path: Path, callback: Listener) -> None:
    with pytest.raises(KeyboardInterrupt):
        follow(tmp_path / "run", callback, stop=4)
    assert callback.received[-1] == ("end", "stopped")
    callback.received.clear()
    follow(tmp_path / "run", callback, again=True)
    assert callback.received[0] == ("begin", "fedgloss(rho_s=0.05, rho_l=0.05)", 4)
    assert [received[1] for received in callback.received if received[0] == "row"] == [5, 6]
    assert callback.received[-1] == ("end", "done")


def test_one_that_fails_is_dropped_and_the_run_continues(tmp_path: Path) -> None:
    failing, output = Failing(), []
    follow(tmp_path / "run", failing, messages=output)
    assert [received[1] for received in failing.received if received[0] == "row"] == [1, 2, 3]
    assert ("end", "done") not in failing.received
    assert len(output) == 1
    assert (
        "the logger Failing failed (OSError: no space left) and is not used any more. The run continues"
        in output[0]
    )
    begin(experiment("fedgloss(rho_s=0.05, rho_l=0.05)"), tmp_path / "alone")
    assert final(tmp_path / "run") == final(tmp_path / "alone")
    assert timeless(rows(tmp_path / "run")) == timeless(rows(tmp_path / "alone"))


def test_one_that_cannot_begin(tmp_path: Path) -> None:
    messages: list[str] = []
    follow(tmp_path / "run", Unopened(), messages=messages)
    assert len(messages) == 1
    assert len(rows(tmp_path / "run")) == 6


def test_names() -> None:
    with pytest.raises(
        SpellingError, match=r"unknown logger 'wandbb'. Did you mean 'wandb'\? Known: mlflow, "
    ):
        loggers_of("wandbb")


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        logger, "find_spec", lambda name: None if name == "sqlalchemy" else object()
    )
    assert [one.name for one in loggers_of("tensorboard, wandb,tensorboard")] == [
        "tensorboard",
        "wandb",
    ]
    with pytest.raises(
        SettingError,
        match=r"mlflow needs sqlalchemy, which is not .* pip install 'fedflat\[mlflow\]'",
    ):
        check_installed("mlflow")
    monkeypatch.setattr(logger, "find_spec", lambda name: None)
    with pytest.raises(
        SettingError,
        match="mlflow needs mlflow and sqlalchemy and alembic, which are not installed",
    ):
        check_installed("mlflow")


def test_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logger, "find_spec", lambda name: None)
    for word, sentence in (
        ("wandb", "pip install 'fedflat[wandb]'"),
        ("bored", "Known: mlflow, tensorboard, wandb"),
    ):
        assert (
            main(["run", "fedavg", "--on", ON, "--logger", word, "--out", str(tmp_path / "run")])
            == 2
        )
        assert sentence in capsys.readouterr().err
        assert not (tmp_path / "run").exists()
    monkeypatch.undo()
    monkeypatch.setattr(logger, "find_spec", lambda name: object())
    with pytest.raises(
        SettingError, match="record and logger write into the run folder, and there is none"
    ):
        ff.run("fedavg", on=ON, rounds=1, logger="tensorboard")


def test_a_library_that_is_gone_when_going_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    callback = Listener()
    settings: dict[str, Any] = {
        "on": ON,
        "rounds": 3,
        "clients_per_round": 2,
        "model": "logistic",
        "threads": 1,
    }
    stop = Reporter(announce=lambda exp, place, total: stop_at(1))
    with monkeypatch.context() as m:
        m.setattr(logger, "loggers_of", lambda text: [callback] if text == "mlflow" else [])
        m.setattr(logger, "find_spec", lambda name: object())
        with pytest.raises(KeyboardInterrupt):
            ff.run("fedavg", out=tmp_path / "run", logger="mlflow", reporter=stop, **settings)
    monkeypatch.setattr(logger, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match="mlflow needs"):
        resume(tmp_path / "run")
    assert [result.status for result in resume(tmp_path / "run", logger="none")] == ["done"]
    assert callback.received[-1] == ("end", "stopped")


def test_without_loggers_or_folder_the_book_is_the_book() -> None:
    run_folder = RunFolder()
    assert with_loggers(run_folder, "") is run_folder
