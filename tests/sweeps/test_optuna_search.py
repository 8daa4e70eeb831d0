"""A search by Optuna: which settings it tries, which it prunes, and that it repeats itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fedflat as ff
from fedflat.cli import main
from fedflat.errors import RunError, SettingError
from fedflat.experiments.execution_config import merge_config
from fedflat.experiments.experiment import from_texts
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.study_file import PlannedRun, is_run, read_plan
from fedflat.experiments.study import resume, run_one
from fedflat.sweeps.optuna_search import GROUP, Search, add_runs, first_group

DATA = "digits(lda(0), clients=10)"
WORDS = ["fedavg", "--lr", "{log(0.0001, 0.3)}", "--on", DATA, "--rounds", "4", "--quiet"]
WORDS += ["--clients-per-round", "3", "--search", "optuna", "--trials", "8"]


class Killed(Exception):
    """Stands for the death of the process."""


def in_this_process(
    folder: Path,
    jobs: int,
    pause: float,
    note: Callable[[str], object],
    runs: Sequence[PlannedRun],
    stops: Mapping[str, int],
) -> None:
    """Run up to the stops without other processes."""
    plan = read_plan(folder)
    for run in runs:
        at = folder / run.folder
        if not is_run(at):
            config = merge_config(plan.execution, {})
            exp = from_texts(run.experiment)
            run_one(exp, config, at, until=stops[run.folder], tried=run.tried)
        elif Result.read(at).status == "running":
            resume(at, until=stops[run.folder])


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    def use(function: Any) -> None:
        monkeypatch.setattr("fedflat.sweeps.optuna_search.run_study", function)

    use(in_this_process)
    return use


def summary(folder: Path) -> list[tuple[str, str, list[Any]]]:
    """The runs of a search in their order: settings, how they ended, and their scores."""
    found = [(run.folder, Result.read(folder / run.folder)) for run in read_plan(folder).runs]
    return [(name, one.status, [row["tests"] for row in one.rows]) for name, one in found]


def test_a_killed_search_goes_on_with_the_same_trials(
    tmp_path: Path, runner: Callable[[Any], None], capsys: pytest.CaptureFixture[str]
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert main(["sweep", *WORDS, "--out", str(whole)]) == 0
    table = capsys.readouterr().out
    each = summary(whole)
    assert len(each) == 8
    assert {run.tried for run in read_plan(whole).runs} == {8}
    assert "lr=" in table

    calls = 0

    def dying(folder: Path, *rest: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 6:  # the second group has begun
            raise Killed
        in_this_process(folder, *rest)

    runner(dying)
    with pytest.raises(Killed):
        main(["sweep", *WORDS, "--out", str(killed)])
    assert [name for name, *_ in each] == [run.folder for run in read_plan(killed).runs]
    runner(in_this_process)
    assert main(["sweep", "--resume", str(killed), "--quiet"]) == 0
    assert summary(killed) == each


def test_the_worst_of_a_later_group_is_pruned(
    tmp_path: Path, runner: Callable[[Any], None]
) -> None:
    """The first group is never pruned. In the second, a trial whose best validation score at a stop
    is below the median of the first group's scores at the same round ends there."""
    out = tmp_path / "sweep"
    found = ff.sweep(
        "fedavg",
        on=DATA,
        rounds=4,
        clients_per_round=3,
        lr="{log(0.0001, 0.3)}",
        search="optuna",
        trials=8,
        out=out,
        quiet=True,
    )
    runs = [Result.read(out / run.folder) for run in read_plan(out).runs]
    assert [run.status for run in runs[:GROUP]] == ["done"] * GROUP

    def score(run: Result, round: int) -> float:
        (row,) = [row for row in run.rows if row["round"] == round]
        return float(row["tests"]["validation"]["accuracy"])

    def below(run: Result, stop: int) -> bool:
        best = max(score(run, round) for round in range(1, stop + 1))
        earlier = sorted(score(one, stop) for one in runs[:GROUP])
        return best < (earlier[1] + earlier[2]) / 2

    ends = []
    for run in runs[GROUP:]:
        stop = next((stop for stop in (1, 2, 3) if below(run, stop)), 4)
        ends.append(stop)
        assert run.rows[-1]["round"] == stop
        assert run.status == ("done" if stop == 4 else "early")
    assert min(ends) < 4, "the example should prune a trial"
    assert found.pruned == {run.folder for run in runs if run.status == "early"}
    assert not {run.folder for run in found.chosen} & found.pruned


def test_a_small_space_is_tried_once() -> None:
    search = Search(["fedsam(rho={0.1, 0.2})"], {"on": DATA, "rounds": 1}, (0,), 10, 0)
    ((first, second),) = first_group(search)
    assert [first.label, second.label] == ["rho=0.1", "rho=0.2"]


def test_the_seed_of_the_search_decides() -> None:
    def labels(seed: int) -> list[str]:
        search = Search(["fedsam(rho={log(0.01, 1)})"], {"on": DATA, "rounds": 1}, (0,), 9, seed)
        return [one.label for one in first_group(search)[0]]

    assert labels(1) == labels(1)
    assert labels(1) != labels(2)


def test_without_a_folder_it_is_refused() -> None:
    with pytest.raises(SettingError, match="out="):
        ff.sweep("fedavg", on=DATA, rounds=1, lr=[0.1, 0.2], search="optuna", trials=2)


def test_without_optuna_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    search = Search(["fedavg"], {"on": DATA, "rounds": 1}, (0,), 1, 0)
    with pytest.raises(SettingError, match=r"fedflat\[optuna\]"):
        first_group(search)


def test_another_search_in_its_folder_is_refused(
    tmp_path: Path, runner: Callable[[Any], None]
) -> None:
    """Another version of Optuna may propose other settings."""
    out = tmp_path / "sweep"
    words = [*WORDS[:-1], "1", "--out", str(out)]
    assert main(["sweep", *words]) == 0
    run = read_plan(out).runs[0]
    other = replace(from_texts(run.experiment), rounds=5).texts()
    with pytest.raises(RunError, match="does not repeat"):
        add_runs(out, [replace(run, experiment=other)])
