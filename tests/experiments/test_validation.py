"""Choosing by a validation set: the kept model, patience, functions that end a run, and tables."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import fedflat as ff
from experiments.small import final, rows, timeless
from fedflat.cli import main
from fedflat.errors import RunError, SettingError
from fedflat.experiments.callbacks import RoundEnd
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.train import EARLY
from fedflat.server.ledger import Ledger

SETTINGS: dict[str, Any] = {
    "on": "digits(lda(0.5), clients=12)",
    "rounds": 12,
    "clients_per_round": 3,
    "model": "logistic",
    "lr": 2.0,
    "eval_every": 2,
    "eval_last": 1,
    "validation": 0.2,
    "quiet": True,
}


def run(method: str = "fedavg", **more: Any) -> Result:
    return ff.run(method, **{**SETTINGS, **more})


def scores(result: Result) -> list[float]:
    return [row["tests"]["validation"]["accuracy"] for row in result.rows]


def test_the_best_model_is_the_one_the_validation_set_scores_best(tmp_path: Path) -> None:
    result = run("fedavg + swa(start=0.5)", out=tmp_path / "run", select_by="validation")
    best = max(range(len(result.rows)), key=lambda at: scores(result)[at])
    assert scores(result)[best] > scores(result)[-1]
    row = result.rows[best]
    assert result.final() == result.chosen() == row["accuracy"]
    assert result.final("loss") == row["loss"]
    shorter = run("fedavg + swa(start=0.5)", select_by="validation", rounds=12)
    seen: list[dict[str, torch.Tensor]] = []

    def look(end: RoundEnd) -> None:
        if end.round == row["round"]:
            seen.append(end.module().state_dict())

    run("fedavg + swa(start=0.5)", on_round_end=look)
    for module in (result.module(), ff.load(tmp_path / "run"), shorter.module("best")):
        for name, value in module.state_dict().items():
            assert torch.equal(value, seen[0][name])
    saved = load_file(tmp_path / "run" / "final.safetensors")
    assert all(torch.equal(saved[name], seen[0][name]) for name in saved)
    end = read_record(tmp_path / "run").end
    assert end is not None
    assert (end.reported, list(end.models)) == ("best", ["server", "swa", "best"])
    assert main(["export", str(tmp_path / "run"), "--to", str(tmp_path / "best.safetensors")]) == 0
    exported = load_file(tmp_path / "best.safetensors")
    assert all(torch.equal(exported[name], seen[0][name]) for name in exported)


def test_patience_counts_rounds_and_reports_the_best() -> None:
    whole = run(rounds=40)
    found = scores(whole)
    best, end = 0, 40
    for at, score in enumerate(found):
        if score > found[best]:
            best = at
        if whole.rows[at]["round"] - whole.rows[best]["round"] >= 2:
            end = whole.rows[at]["round"]
            break
    assert end < 40
    result = run(rounds=40, patience=2)
    assert (result.status, result.rows[-1]["round"]) == ("early", end)
    assert result.final() == whole.rows[best]["accuracy"]
    last = run(rounds=40, patience=2, select_by="last")
    assert last.final() == last.rows[-1]["accuracy"]


@pytest.mark.parametrize(
    "executor",
    [
        "in-process",
        "loopback",
        "stacked",
        pytest.param("workers(workers=2)", marks=pytest.mark.slow),
    ],
)
def test_resumed_to_the_same_bytes(tmp_path: Path, executor: str) -> None:
    more = {"select_by": "validation", "executor": executor, "rounds": 8}
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    run("fedavg + swa(start=0.5)", out=whole, **more)

    def interrupt(end: RoundEnd) -> None:
        if end.round == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("fedavg + swa(start=0.5)", out=halves, on_round_end=interrupt, **more)
    with pytest.raises(RunError, match=r"on_round_end .*was given in Python"):
        ff.resume(halves, quiet=True)
    ff.resume(halves, quiet=True, on_round_end=[])
    assert timeless(rows(whole)) == timeless(rows(halves))
    assert final(whole) == final(halves)
    assert "final-server.safetensors" in final(whole)


def test_a_run_that_was_killed_after_it_had_ended_ends_there(tmp_path: Path) -> None:
    """The last checkpoint is written before the status; a kill in between must not go on."""
    from fedflat.experiments.run_folder.run_folder import DiskRunFolder

    result, folder = run(rounds=40, patience=2), tmp_path / "run"
    finish = DiskRunFolder.finish
    try:
        DiskRunFolder.finish = lambda *_: (_ for _ in ()).throw(MemoryError)  # type: ignore[method-assign,assignment]
        with pytest.raises(MemoryError):
            run(rounds=40, patience=2, out=folder)
    finally:
        DiskRunFolder.finish = finish  # type: ignore[method-assign]
    [resumed] = ff.resume(folder, quiet=True)
    assert (resumed.status, timeless(resumed.rows)) == ("early", timeless(result.rows))
    assert read_record(folder).status == EARLY


def test_a_function_ends_the_run_in_a_round_that_is_then_evaluated() -> None:
    calls: list[int] = []

    def end_at_5(end: RoundEnd) -> bool:
        calls.append(end.round)
        assert bool(end.row) == (end.round % 2 == 0)
        assert [row["round"] for row in end.rows] == list(range(2, end.round, 2))
        assert math.isfinite(end.train_loss)
        assert (end.rounds, end.seed, end.method) == (12, 0, "fedavg()")
        return end.round == 5

    result = run(on_round_end=end_at_5)
    assert calls == [1, 2, 3, 4, 5]
    assert [row["round"] for row in result.rows] == [2, 4, 5]
    assert result.status == "early"
    assert result.final() == result.rows[-1]["accuracy"]
    whole = run(eval_every=1)
    assert result.rows[-1]["accuracy"] == whole.rows[4]["accuracy"]


def test_functions_are_checked() -> None:
    with pytest.raises(SettingError, match="must return True"):
        run(on_round_end=lambda end: "stop")
    with pytest.raises(SettingError, match="must be a function"):
        run(on_round_end="stop")


def test_without_validation_nothing_changes(tmp_path: Path) -> None:
    """The state of a plain run holds no entry of a selection."""
    from fedflat.experiments.state import last_state

    run(out=tmp_path / "run", validation=None, rounds=3)
    state = last_state(tmp_path / "run", read_record(tmp_path / "run").identity)
    assert state.averages == {}
    with pytest.raises(SettingError, match="--select-by validation needs a validation set"):
        run(validation=None, select_by="validation")
    with pytest.raises(SettingError, match="--patience needs a validation set"):
        run(validation=None, patience=3, select_by="last")


def test_data_given_in_python_get_the_same_share_when_they_are_resumed(tmp_path: Path) -> None:
    rng = torch.Generator().manual_seed(0)
    given = [(torch.randn(9, 4, generator=rng), torch.arange(9) % 3) for _ in range(5)]
    on = ff.clients_of(given, test=given[0], classes=3)
    more = {"on": on, "model": "mlp([5])", "rounds": 4}
    whole = run(**more)

    def interrupt(end: RoundEnd) -> None:
        if end.round == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(**more, out=tmp_path / "run", on_round_end=interrupt)
    [resumed] = ff.resume(tmp_path / "run", on=on, on_round_end=[], quiet=True)
    assert timeless(resumed.rows) == timeless(whole.rows)


def test_the_share_is_part_of_the_data() -> None:
    exp = ff.experiment("fedavg", "digits()", rounds=1, validation=0.1, validation_by="clients")
    assert repr(exp.on) == "with_validation(digits(), 0.1, by='clients')"
    named = ff.experiment("fedavg", repr(exp.on), rounds=1)
    assert (named.on, named.validation, named.validation_by) == (exp.on, 0.1, "clients")
    with pytest.raises(SettingError, match="contradicts the data"):
        ff.experiment("fedavg", repr(exp.on), rounds=1, validation=0.2)
    with pytest.raises(SettingError, match="clients hold no labels"):
        ff.run("self_training", on="digits()", rounds=1, validation=0.1, quiet=True)


def test_tables_say_which_set_chose(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["run", "fedavg", "--on", "digits(clients=12)", "--rounds", "2", "--model", "logistic"]
    words += ["--validation", "0.1", "--quiet"]
    assert main([*words, "--out", str(tmp_path / "a")]) == 0
    text = capsys.readouterr().out
    assert "chosen %" in text
    assert "Best is optimistic: the test set chose it." in text
    assert "Chosen: the accuracy on the test set at the evaluation with the best score on" in text
    assert main([*words, "--select-by", "validation", "--out", str(tmp_path / "b")]) == 0
    text = capsys.readouterr().out
    assert "chosen %" not in text
    assert "on the test set: the evaluation with the best score on the validation set" in text


def result_of(accuracies: list[float], validation: list[float], **more: Any) -> Result:
    found = [
        {"round": at + 1, "accuracy": a, "loss": 1.0, "tests": {"validation": {"accuracy": v}}}
        for at, (a, v) in enumerate(zip(accuracies, validation, strict=True))
    ]
    made = Result("fedavg()", 0, "done", len(found), 2, found, Ledger())
    return replace(made, **more)


def test_the_first_of_equal_evaluations_is_chosen() -> None:
    result = result_of([0.1, 0.2, 0.3, 0.4], [0.5, 0.7, 0.7, math.nan])
    assert result.chosen() == 0.2
    assert result.final() == pytest.approx(0.35)
    chosen = replace(result, by_validation=True)
    assert chosen.final() == 0.2
    assert math.isnan(replace(chosen, status="running").final())
    assert math.isnan(result_of([0.1], [math.nan]).chosen())


def test_runs_that_were_chosen_otherwise_are_not_compared() -> None:
    plain = result_of([0.1, 0.2], [0.5, 0.7])
    text = repr(ff.Results([plain, replace(plain, method="fedsam()", by_validation=True)]))
    assert "The validation set chose the round of some of these runs." in text
