"""Each logger with its real library, and what that library reads back; without the library, nothing
to test."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from experiments.small import ON, Eager, experiment, rows, stop_at, wait_for
from fedflat.cli import main
from fedflat.execution.in_process import InProcess
from fedflat.experiments.loggers.logger import LoggedRunFolder, loggers_of, numbers
from fedflat.experiments.run_folder.run_folder import DiskRunFolder
from fedflat.experiments.train import train

pytestmark = pytest.mark.filterwarnings("ignore")
METHOD = "fedavg + wima(window=3)"


def follow(folder: Path, name: str) -> list[dict[str, Any]]:
    """A run of six rounds: checkpoint at 2, killed after 4, resumed; its rows."""
    exp = experiment(METHOD)
    messages: list[str] = []
    with closing(
        LoggedRunFolder(
            Eager.create(folder, exp.texts(), {}, pause=0, print_line=messages.append),
            loggers_of(name),
        )
    ) as run_folder:
        with pytest.raises(KeyboardInterrupt):
            train(exp, run_folder=run_folder, executor=InProcess(threads=1), on_progress=stop_at(2))
        for beyond in (3, 4):  # rows of a killed run beyond its checkpoint
            run_folder.write({**rows(folder)[-1], "round": beyond})
    with closing(
        LoggedRunFolder(DiskRunFolder.open(folder, print_line=messages.append), loggers_of(name))
    ) as run_folder:
        train(exp, run_folder=run_folder, executor=InProcess(threads=1))
    assert messages == []
    return rows(folder)


def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any proxy or name would be asked in vain."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    written = follow(tmp_path / "run", "tensorboard")
    read = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    read.Reload()
    assert set(read.Tags()["scalars"]) == {name for row in written for name in numbers(row)}
    for name in ("loss", "accuracy", "models/wima/loss", "down"):
        found = [(point.step, point.value) for point in read.Scalars(name)]
        expected = [(row["round"], numbers(row)[name]) for row in written if name in numbers(row)]
        assert [step for step, _ in found] == [step for step, _ in expected]  # each once
        assert [value for _, value in found] == pytest.approx(
            [value for _, value in expected], rel=1e-6
        )
    text = read.Tensors("settings/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "- method: `fedavg() + wima(window=3)`" in text


def test_from_the_command_line(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    words = (
        "--on",
        ON,
        "--rounds",
        "2",
        "--clients-per-round",
        "2",
        "--model",
        "logistic",
        "--record",
        "norms",
    )
    assert (
        main(
            [
                "run",
                "fedavg",
                *words,
                "--logger",
                "tensorboard",
                "--out",
                str(tmp_path / "run"),
                "--quiet",
            ]
        )
        == 0
    )
    read = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    read.Reload()
    assert {"accuracy", "norms"} <= set(read.Tags()["scalars"])
    assert json.loads((tmp_path / "run" / "run.json").read_text())["how"]["logger"] == "tensorboard"


def records(path: Path) -> Iterator[bytes]:
    """The records of a .wandb file: a header of seven bytes, then a LevelDB log in blocks of 32
    KiB."""
    content, place, parts = path.read_bytes(), 7, b""
    while place + 7 <= len(content):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        parts += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


@pytest.mark.slow
def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    no_network(monkeypatch)
    written = follow(tmp_path / "run", "wandb")
    files = sorted(
        (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb"),
        key=lambda path: path.stat().st_mtime_ns,
    )
    assert len(files) == 2
    assert len({path.name for path in files}) == 1  # one id

    def kept(kind: str) -> Iterator[Any]:
        every = (record for path in files for record in map(Record.FromString, records(path)))
        return (record for record in every if record.WhichOneof("record_type") == kind)

    wait_for(
        lambda: len(list(kept("history"))) == 8, "the library's own process writing all it was sent"
    )
    for record in kept("run"):
        config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
        assert config["method"] == "fedavg() + wima(window=3)"
    seen = [
        {
            item.key or "/".join(item.nested_key): json.loads(item.value_json)
            for item in record.history.item
        }
        for record in kept("history")
    ]
    assert [row["_step"] for row in seen] == [
        1,
        2,
        3,
        4,
        3,
        4,
        5,
        6,
    ]  # the two rows beyond the checkpoint are there
    for row, expected in zip(seen[:2] + seen[4:], written, strict=True):
        assert row["_step"] == expected["round"]
        assert {name: row[name] for name in numbers(expected)} == numbers(expected)


@pytest.mark.slow
def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("mlflow", "sqlalchemy", "alembic"):
        pytest.importorskip(library)
    no_network(monkeypatch)
    monkeypatch.chdir(tmp_path)
    written = follow(tmp_path / "run", "mlflow")
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'run' / 'mlruns' / 'mlflow.db'}")
    experiment_id = client.get_experiment_by_name("fedflat").experiment_id
    (run,) = client.search_runs([experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["method"] == "fedavg() + wima(window=3)"
    assert run.data.params["seed"] == "3"
    for name in ("loss", "models/wima/loss", "down"):
        history = sorted(
            (point.step, point.value) for point in client.get_metric_history(run.info.run_id, name)
        )
        expected = [(row["round"], numbers(row)[name]) for row in written if name in numbers(row)]
        assert [step for step, _ in history] == [step for step, _ in expected]
        assert dict(history)[6] == dict(expected)[6]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]  # nothing is left elsewhere
