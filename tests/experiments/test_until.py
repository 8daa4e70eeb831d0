"""Stopped after a given round to be gone on with: the same run, with the schedules of the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedflat as ff
from experiments.small import EVERYTHING, experiment, final, rows, timeless
from fedflat.errors import SettingError
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.experiment import EvaluationSchedule
from fedflat.experiments.progress import Progress
from fedflat.experiments.study import resume, run_one
from fedflat.experiments.train import train
from fedflat.server.averaging import Ema, Swa, Wima

ON = {"on": "digits(lda(0), clients=10)", "rounds": 8, "clients_per_round": 2, "eval_every": 1}
HOW = ExecutionConfig(executor="in-process", threads=1)


def test_stopped_and_resumed_is_the_run_at_once(tmp_path: Path) -> None:
    method = "fedgloss(rho_s=0.05, rho_l=0.05, T_s=5) + swa(start=0.5, cycle=2)"
    exp = ff.experiment(method, lr="cosine(0.1, 0.01, 8)", **ON)
    whole = run_one(exp, HOW, tmp_path / "whole")
    part = run_one(exp, HOW, tmp_path / "parts", until=4)
    assert (part.status, part.rows[-1]["round"], part.rounds) == ("running", 4, 8)
    assert not (tmp_path / "parts" / "final.safetensors").exists()
    (part,) = resume(tmp_path / "parts", until=5)
    (part,) = resume(tmp_path / "parts", until=3)  # which was long ago
    assert (part.status, part.rows[-1]["round"]) == ("running", 5)
    (done,) = resume(tmp_path / "parts", until=100)
    assert done.status == whole.status == "done"
    assert timeless(rows(tmp_path / "parts")) == timeless(rows(tmp_path / "whole"))
    assert final(tmp_path / "parts") == final(tmp_path / "whole")


def test_the_last_rounds_before_the_stop_are_evaluated_as_those_before_the_end() -> None:
    exp = experiment(EVERYTHING, rounds=20, evaluate=EvaluationSchedule(every=5, last=2))
    assert [row["round"] for row in train(exp).rows] == [5, 10, 15, 19, 20]
    assert [row["round"] for row in train(exp, until=9).rows] == [5, 8, 9]
    assert [row["round"] for row in train(exp, until=19).rows] == [5, 10, 15, 18, 19]


def test_callbacks_see_the_rounds_up_to_the_stop() -> None:
    ticks: list[Progress] = []
    train(experiment(rounds=6), until=3, on_progress=ticks.append)
    assert [(progress.round, progress.rounds) for progress in ticks] == [(1, 3), (2, 3), (3, 3)]
    assert ticks[-1].left == 0


def test_a_personal_run_is_tuned_at_its_end_only(tmp_path: Path) -> None:
    exp = ff.experiment(
        "fedavg_ft()", **{**ON, "on": "digits(lda(0), clients=10, split=0.7)", "rounds": 3}
    )
    run_one(exp, HOW, tmp_path / "run", until=2)
    assert not any(row.get("tuned") for row in rows(tmp_path / "run"))
    resume(tmp_path / "run")
    assert [row["round"] for row in rows(tmp_path / "run") if row.get("tuned")] == [3]


def test_no_round_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="until must be a whole number of at least 1, found 0"):
        run_one(experiment(), HOW, tmp_path / "run", until=0)
    assert not (tmp_path / "run").exists()


def test_averages_that_change_the_training() -> None:
    steering = [average.changes_lr for average in (Wima(), Ema(), Swa(), Swa(cycle_lr=False))]
    assert steering == [False, False, True, False]
