"""Recording changes no number, survives kills, and costs nothing if it is off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn

import fedflat as ff
from experiments.recording.record_one import experiment, record, rows_of
from experiments.small import ON, Eager, final, rows, stop_at, timeless
from fedflat.cli import main
from fedflat.client.local import LocalTraining
from fedflat.core.messages import Broadcast, Replies, Reply, ReplyBatch
from fedflat.errors import SettingError, SpellingError
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.recording import Recorder, metrics_of, recording_callback
from fedflat.experiments.recording.recorder import ALL, Metric, RoundView
from fedflat.experiments.run_folder.record import read_record, read_rows
from fedflat.experiments.run_folder.run_folder import DiskRunFolder
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.study import Reporter, resume
from fedflat.experiments.train import train
from fedflat.registry.specs import register, registered
from fedflat.server.step import StepResult
from plugins.forgetting import forget
from test_every_method import EVERY, method_of
from test_every_method import experiment as every

EVERYTHING = "fedgloss(rho_s=0.05, rho_l=0.05, beta=10, delta_eps=True) + wima(window=3)"

WHOLE = LocalTraining(epochs=2, batch_size=4, lr=0.05, drop_last=True)


class Moody(nn.Module):
    """Running statistics to spoil, and random numbers to draw at a wrong time."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, 3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


@pytest.mark.usefixtures("warm_processes")
@pytest.mark.parametrize(
    ("exp", "executor"),
    [
        (experiment(EVERYTHING, model=Moody(), local=WHOLE), InProcess(threads=1)),
        (experiment(EVERYTHING), Workers(1)),
        (experiment(EVERYTHING), Stacked()),
    ],
    ids=["one by one", "workers", "stacked"],
)
def test_no_number_of_the_run_changes(exp: Experiment, executor: Executor) -> None:
    bare, recorded = record(exp, None, executor), record(exp, ALL, executor)
    assert bare.recorded == []
    assert all(torch.equal(a, b) for a, b in zip(bare.models, recorded.models, strict=True))
    assert rows_of(bare) == rows_of(recorded)  # scores, bytes and samples
    names = {name for row in recorded.recorded for name in row}
    assert names == {"round", *Recorder.of(prepare(exp), ALL).labels}
    if isinstance(executor, Workers):
        assert recorded.recorded == record(exp, ALL).recorded


@pytest.mark.slow
@pytest.mark.parametrize("text", EVERY)
def test_no_number_of_any_method_changes(text: str) -> None:
    exp = every(method_of(text))
    for executor in (InProcess(threads=1), Stacked()):
        if isinstance(executor, Stacked) and executor.refusal(prepare(exp).job):
            continue
        bare, recorded = record(exp, None, executor), record(exp, ALL, executor)
        assert all(torch.equal(a, b) for a, b in zip(bare.models, recorded.models, strict=True))
        assert rows_of(bare) == rows_of(recorded)
        assert [row["round"] for row in recorded.recorded if "drift" in row] == list(
            range(1, exp.rounds + 1)
        )


def test_nothing_recorded_is_nothing_done() -> None:
    setup = prepare(experiment())
    no_recorder = Recorder.of(setup, None)
    notes: dict[str, dict[str, torch.Tensor]] = {}
    assert no_recorder.job(setup.job) is setup.job
    assert no_recorder.on_round_start(0, [0], notes, True).metrics == ()
    assert notes == {}
    assert Recorder.of(setup, "norms,classes,features,alignment").job(setup.job) is setup.job
    assert Recorder.of(setup, "client_lambda").job(setup.job) == replace(
        setup.job, returns_models=True
    )


def test_going_on_is_going_on(tmp_path: Path) -> None:
    """Stopped after two rounds; lines beyond the checkpoint, one of them cut short, are what a kill
    leaves."""
    exp = experiment(EVERYTHING)

    def begin(folder: Path, stop: int | None) -> None:
        with closing(Eager.create(folder, exp.texts(), {}, pause=0)) as book:
            train(
                exp,
                run_folder=book,
                executor=InProcess(threads=1),
                on_progress=stop_at(stop),
                callbacks=recording_callback(ALL),
            )

    begin(tmp_path / "whole", None)
    with pytest.raises(KeyboardInterrupt):
        begin(tmp_path / "cut", 2)
    with open(tmp_path / "cut" / "recorded.jsonl", "a") as stream:
        stream.write('{"round": 3, "drift": 0.5}\n{"round": 4, "dri')
    with closing(DiskRunFolder.open(tmp_path / "cut")) as run_folder:
        train(
            exp,
            run_folder=run_folder,
            executor=InProcess(threads=1),
            callbacks=recording_callback(ALL),
        )
        assert run_folder.recorded == read_rows(tmp_path / "cut", "recorded")
    whole, cut = (read_rows(tmp_path / name, "recorded") for name in ("whole", "cut"))
    assert whole == cut
    assert [row["round"] for row in whole] == [1, 2, 3, 4]
    assert final(tmp_path / "whole") == final(tmp_path / "cut")
    assert timeless(rows(tmp_path / "whole")) == timeless(rows(tmp_path / "cut"))


def test_alignment_does_not_reach_over_rounds_without_recording(tmp_path: Path) -> None:
    exp = experiment()
    for stop, what in ((1, "alignment"), (2, None), (None, "alignment")):
        folder = tmp_path / "run"
        made = (
            DiskRunFolder.create(folder, exp.texts(), {})
            if stop == 1
            else DiskRunFolder.open(folder)
        )
        with closing(made) as run_folder:
            try:
                train(
                    exp,
                    run_folder=run_folder,
                    executor=InProcess(threads=1),
                    on_progress=stop_at(stop),
                    callbacks=recording_callback(what),
                )
            except KeyboardInterrupt:
                assert stop is not None
    assert [row["round"] for row in read_rows(tmp_path / "run", "recorded")] == [4]


def test_alignment_reads_the_round_of_an_older_checkpoint() -> None:
    """Version 0.4 kept it under "round", which another metric may use too."""
    w, alignment = torch.tensor([3.0, 4.0]), metrics_of("alignment")
    state = {"alignment": torch.tensor([1.0, 0.0]), "round": torch.tensor(0)}
    setup = prepare(experiment())
    for t, cosine in ((1, 0.6), (2, 1.0)):
        view = RoundView(alignment, setup, t, [0], state, due=False, scratch={"alignment": w})
        found = alignment[0].on_round_end(view, cast(StepResult, None))
        assert found["alignment"] == pytest.approx(cosine, rel=1e-15)
    assert torch.equal(state["round"], torch.tensor(0))


def test_runs_and_studies_record_what_is_set(tmp_path: Path) -> None:
    settings = {"on": ON, "rounds": 3, "clients_per_round": 2, "model": "logistic", "threads": 1}
    noted: list[str] = []
    stop = Reporter(announce=lambda exp, place, total: stop_at(2), note=noted.append)
    with pytest.raises(KeyboardInterrupt):
        ff.run("fedavg", out=tmp_path / "run", record="norms", reporter=stop, **settings)
    assert noted[1:] == ["  recording norms: one norm a round"]
    resume(tmp_path / "run")
    assert [row["round"] for row in read_rows(tmp_path / "run", "recorded")] == [1, 2, 3]
    ff.compare(
        ["fedavg", "fedsam(rho=0.1)"], out=tmp_path / "study", record="drift,norms", **settings
    )
    for path in tmp_path.glob("study/*/seed-0"):
        assert [set(row) for row in read_rows(path, "recorded")] == [
            {"round", "drift", "norms"}
        ] * 3


def test_another_wish_when_going_on(tmp_path: Path) -> None:
    settings = {"on": ON, "rounds": 3, "clients_per_round": 2, "model": "logistic", "threads": 1}
    stop = Reporter(announce=lambda exp, place, total: stop_at(1))
    with pytest.raises(KeyboardInterrupt):
        ff.run("fedavg", out=tmp_path / "run", record="norms", reporter=stop, **settings)
    with pytest.raises(KeyboardInterrupt):
        resume(
            tmp_path / "run",
            record="drift",
            reporter=Reporter(announce=lambda exp, place, total: stop_at(2)),
        )
    resume(tmp_path / "run", record="none")
    assert [set(row) - {"round"} for row in read_rows(tmp_path / "run", "recorded")] == [
        {"norms"},
        {"drift"},
    ]


def test_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        SpellingError, match=r"unknown metric 'drfit'. Did you mean 'drift'\? Known: alignment, "
    ):
        metrics_of("norms,drfit")
    assert (
        main(["run", "fedavg", "--on", ON, "--record", "noise", "--out", str(tmp_path / "run")])
        == 2
    )
    printed = capsys.readouterr().err
    assert all(entry.name in printed for entry in registered("metric"))
    assert not (tmp_path / "run").exists()
    with pytest.raises(
        SettingError, match=r"write into the run folder, and there is none. Add one: out="
    ):
        ff.run("fedavg", on=ON, rounds=1, record="norms")


@dataclass(frozen=True, repr=False)
class Clumsy(Metric):
    """Fails in ``where`` in the second and the third round."""

    where: str = ""

    def cost(self, setup: RunSetup) -> str:
        return "nothing"

    def _look(self, s: RoundView, where: str) -> None:
        if where == self.where and s.round in (1, 2):
            raise ZeroDivisionError("it stumbled")

    def on_reply(self, s: RoundView, broadcast: Broadcast, reply: Reply | ReplyBatch) -> None:
        self._look(s, "hear")

    def on_aggregate(self, s: RoundView, replies: Replies) -> None:
        self._look(s, "folded")

    def on_round_end(self, s: RoundView, new: StepResult) -> dict[str, Any]:
        self._look(s, "see")
        return {self.key: 1.0}


@pytest.fixture
def clumsy() -> Iterator[None]:
    register("metric", "clumsy")(Clumsy)
    yield
    forget()


@pytest.mark.usefixtures("clumsy")
@pytest.mark.parametrize("where", ["hear", "folded", "see"])
def test_a_metric_that_fails_does_not_end_the_run(tmp_path: Path, where: str) -> None:
    key = f"clumsy(where='{where}')"
    exp, output = experiment(), []
    with closing(
        DiskRunFolder.create(tmp_path / "run", exp.texts(), {}, print_line=output.append)
    ) as run_folder:
        result = train(
            exp,
            run_folder=run_folder,
            executor=InProcess(threads=1),
            callbacks=recording_callback(f"{key}, norms"),
        )
    assert result.status == "done"
    assert torch.equal(result.model.params, record(exp, None).models[-1])
    seen = read_rows(tmp_path / "run", "recorded")
    assert [row["round"] for row in seen if "norms" in row] == [1, 2, 3, 4]
    assert [row["round"] for row in seen if key in row] == [1, 4]
    assert output == [
        f"recording {key} failed in round 2 (ZeroDivisionError: it stumbled). The metric is left out of this round, "
        "and of later rounds in which it fails. The run continues."
    ]


def flat_loss(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (output * 0).sum()


def test_clients_without_curvature() -> None:
    """Lanczos could not begin, and ended the run."""
    exp = experiment(model=nn.Sequential(nn.Linear(4, 12), nn.Linear(12, 3)), loss=flat_loss)
    values = [
        row["client_lambda"]
        for row in record(exp, "client_lambda").recorded
        if "client_lambda" in row
    ]
    assert values
    assert {value for row in values for value in row.values()} == {0.0}


def test_a_metric_with_arguments_has_a_key_of_its_own() -> None:
    """The second largest eigenvalue is below the largest, and stands beside it."""
    assert [
        metric.key for metric in metrics_of("client_lambda, client_lambda(k=2), client_lambda(k=1)")
    ] == [
        "client_lambda",
        "client_lambda(k=2)",
    ]
    with pytest.raises(
        SettingError, match=r"client_lambda: k must be a whole number of at least 1 .* found 0"
    ):
        metrics_of("client_lambda(k=0)")
    rows = [
        row
        for row in record(experiment(), "client_lambda, client_lambda(k=2)").recorded
        if "client_lambda" in row
    ]
    assert rows
    for row in rows:
        first, second = row["client_lambda"], row["client_lambda(k=2)"]
        assert first.keys() == second.keys()
        assert all(second[client] < first[client] for client in first)


def test_every_metric_writes_under_its_name() -> None:
    keys = {key for row in record(experiment(EVERYTHING), "all").recorded for key in row}
    of_domains = "fedflat.experiments.recording.found_domains"  # defined for FedCG only
    others = {e.name for e in registered("metric") if e.make.__module__ != of_domains}
    assert keys == {"round", *others}


def test_run_json_keeps_the_labels_of_metrics(tmp_path: Path) -> None:
    settings = {
        "on": ON,
        "rounds": 2,
        "clients_per_round": 2,
        "model": "logistic",
        "threads": 1,
        "quiet": True,
    }
    stop = Reporter(announce=lambda exp, place, total: stop_at(1))
    with pytest.raises(KeyboardInterrupt):
        ff.run("fedavg", out=tmp_path / "run", record="norms", reporter=stop, **settings)
    resume(tmp_path / "run", record="classes")
    kept = read_record(tmp_path / "run").recorded
    assert list(kept) == ["norms", "classes"]
    assert kept["classes"] == {
        "title": "Accuracy of each class",
        "entries": "class",
        "unit": "%",
        "note": "Stripes are classes that are learnt in one round and forgotten in the next.",
    }
