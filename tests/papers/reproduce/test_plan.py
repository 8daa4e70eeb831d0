"""The folder of a table before anything runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.damaged_files import ODD
from fedflat.cli import main
from fedflat.errors import RunError
from fedflat.experiments.run_folder.schema import signed, verified
from fedflat.experiments.run_folder.study_file import read_plan
from fedflat.papers.reproduce.cells import TableCell
from fedflat.papers.reproduce.plan import FILE, PlanRequest, TablePlan, alone, new_plan, open_plan

SETTINGS: dict[str, Any] = {
    "on": "digits(lda(0), clients=10)",
    "model": "mlp(hidden=[8])",
    "rounds": 300,
    "clients_per_round": 2,
    "eval_last": 3,
    "lr": "cosine(0.1, 0.01, 300)",
}


def cell(name: str, method: str, **more: Any) -> TableCell:
    return TableCell(
        name=f"mine/{name}", arguments={**SETTINGS, "method": method, **more}, reported=50.0
    )


PLAIN, WIMA = cell("plain", "fedavg()"), cell("wima", "fedavg() + wima(window=3)")
GLOSS = cell("gloss", "fedgloss(rho_s=0.05, rho_l=0.05, T_s=150)")


def planned(folder: Path, *cells: TableCell, **asked: Any) -> TablePlan:
    plan = open_plan(folder) if (folder / FILE).exists() else new_plan(folder, "Mine", "ours")
    plan = plan.added(cells, PlanRequest(**asked), "fedflat reproduce ...")
    plan.write()
    return plan


def test_more_cells_and_seeds_later(tmp_path: Path) -> None:
    planned(tmp_path, PLAIN, rounds=4)
    plan = planned(tmp_path, PLAIN, WIMA, seeds=[0, 1], rounds=9)
    assert {entry.cell.name: entry.folders for entry in plan.entries} == {
        # the first run of seed 0 keeps no window, and stays what it is; that of seed 1 is shared
        "mine/plain": {0: "plain/seed-0", 1: "plain/seed-1"},
        "mine/wima": {0: "wima/seed-0", 1: "plain/seed-1"},
    }
    assert [repr(job.experiment.method) for job in plan.jobs] == [
        "fedavg()",
        *["fedavg() + wima(window=3)"] * 2,
    ]
    assert {plan.until(job) for job in plan.jobs} == {9}
    assert plan.waiting() == plan.jobs
    assert [run.folder for run in read_plan(tmp_path).runs] == [job.folder for job in plan.jobs]


def test_only_what_is_asked_for_is_run(tmp_path: Path) -> None:
    planned(tmp_path, PLAIN, GLOSS, seeds=[0, 1])
    assert [job.folder for job in planned(tmp_path, GLOSS, seeds=[1]).waiting()] == ["gloss/seed-1"]
    assert [job.folder for job in open_plan(tmp_path).waiting()] == [
        "plain/seed-0",
        "plain/seed-1",
        "gloss/seed-0",
        "gloss/seed-1",
    ]


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    plan = planned(tmp_path, PLAIN, WIMA, GLOSS, seeds=2, share=0.5)
    assert open_plan(tmp_path) == plan
    assert open_plan(tmp_path, reading=True).entries == plan.entries
    assert [(entry.stop, entry.last, entry.whole) for entry in plan.entries] == [
        (150, 3, False)
    ] * 3
    assert [entry.models for entry in plan.entries] == [["server"], ["server", "wima"], ["server"]]


def test_the_run_of_a_cut_is_the_paper_s_and_that_of_a_stretch_a_shorter_one(
    tmp_path: Path,
) -> None:
    (cut,) = planned(tmp_path / "cut", GLOSS, rounds=4).jobs
    assert cut.experiment == GLOSS.experiment(0)
    plan = planned(tmp_path / "short", GLOSS, rounds=4, stretch=True)
    (short,) = plan.jobs
    assert short.experiment.rounds == plan.until(short) == 4
    assert repr(short.experiment.method) == "fedgloss(rho_s=0.05, rho_l=0.05, T_s=2)"
    assert short.experiment.as_json()["local"]["lr"] == "cosine(0.1, 0.01, 4)"
    assert not plan.entries[0].whole
    with pytest.raises(
        RunError, match="already has mine/gloss, with other settings or a stretched schedule"
    ):
        planned(tmp_path / "short", GLOSS, rounds=4)


def test_a_cell_with_other_settings_is_refused(tmp_path: Path) -> None:
    planned(tmp_path, PLAIN)
    with pytest.raises(RunError, match="already has mine/plain, with other settings"):
        planned(tmp_path, cell("plain", "fedavg()", lr=0.5))


def test_the_stop() -> None:
    assert PlanRequest().stop(PLAIN) == PlanRequest(rounds=5000).stop(PLAIN) == 300
    assert PlanRequest(rounds=4).stop(PLAIN) == 4
    assert PlanRequest(share=0.3).stop(PLAIN) == 90
    assert PlanRequest(share=1e-9).stop(PLAIN) == 1


def test_commands_are_noted_once_with_what_ran_them(tmp_path: Path) -> None:
    plan = (
        planned(tmp_path, PLAIN)
        .with_command("fedflat reproduce ...")
        .with_command("fedflat reproduce --resume x")
    )
    assert [made["command"] for made in plan.commands] == [
        "fedflat reproduce ...",
        "fedflat reproduce --resume x",
    ]
    assert {"fedflat", "commit", "torch", "python", "cores", "when"} <= set(plan.commands[0])


@pytest.mark.parametrize("odd", ["a named pipe", "a link", "a folder", "nested too deeply"])
def test_what_is_no_plan(tmp_path: Path, odd: str) -> None:
    """A pipe made it wait for ever."""
    ODD[odd](tmp_path / FILE)
    with pytest.raises(RunError, match=f"{FILE} is damaged .*{odd}"):
        open_plan(tmp_path)


def forged(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change reproduce.json, with a digest that fits."""
    saved = verified(json.loads((folder / FILE).read_text()))
    change(saved)
    (folder / FILE).write_text(json.dumps(signed(saved)))


EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a paper's number": lambda saved: saved["entries"][0]["cell"].update(reported=51.0),
    "a method": lambda saved: saved["entries"][0]["cell"]["arguments"].update(method="fedsam()"),
    "a setting": lambda saved: saved["entries"][0]["cell"]["arguments"].update(lr=0.5),
    "a stop": lambda saved: saved["entries"][0].update(stop=2),
    "a run": lambda saved: saved["entries"][0]["folders"].update({"0": "gloss/seed-0"}),
    "a command": lambda saved: saved["commands"][0].update(commit="0123456789ab"),
    "no digest": lambda saved: saved.pop("digest"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_plan_is_refused(
    edit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An edited number was written into another table."""
    planned(tmp_path, PLAIN, GLOSS)
    saved = json.loads((tmp_path / FILE).read_text())
    EDITS[edit](saved)
    (tmp_path / FILE).write_text(json.dumps(saved))
    why = (
        "digest is missing"
        if edit == "no digest"
        else "it does not have the digest it had when it was written"
    )
    for words in ([str(tmp_path), "--table"], ["--resume", str(tmp_path)]):
        assert main(["reproduce", *words]) == 2
        assert (
            f"{FILE} is damaged ({why}). Put it back from a copy, or start anew"
            in capsys.readouterr().err
        )
    assert not (tmp_path / "table.md").exists()


@pytest.mark.parametrize("place", ["../../x", "/elsewhere/x", "plain/../../x", "link/seed-0"])
def test_a_run_outside_the_folder_is_refused(place: str, tmp_path: Path) -> None:
    """Even with a digest that fits."""
    planned(tmp_path / "t", PLAIN)
    (tmp_path / "t" / "link").symlink_to(tmp_path)
    forged(tmp_path / "t", lambda saved: saved["entries"][0].update(folders={"0": place}))
    for reading in (False, True):
        with pytest.raises(
            RunError, match=r"reproduce.json is damaged \(its run '.*' is not inside"
        ):
            open_plan(tmp_path / "t", reading=reading)


def test_a_run_that_the_study_does_not_name_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended in a traceback."""
    planned(tmp_path, PLAIN)
    forged(tmp_path, lambda saved: saved["entries"][0].update(folders={"0": "other/seed-0"}))
    assert main(["reproduce", "--resume", str(tmp_path)]) == 2
    assert "is damaged (study.json has no run 'other/seed-0')" in capsys.readouterr().err


@pytest.mark.parametrize("change", [{"folders": {}}, {"stop": 0}])
def test_a_cell_without_a_run_or_a_round_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    planned(tmp_path, PLAIN)
    forged(tmp_path, lambda saved: saved["entries"][0].update(change))
    with pytest.raises(RunError, match=r"is damaged \('mine/plain' has no run or no round\)"):
        open_plan(tmp_path, reading=True)
    forged(tmp_path, lambda saved: saved.update(entries=[]))
    with pytest.raises(RunError, match=r"is damaged \(it has no cell\)"):
        open_plan(tmp_path, reading=True)


def test_runs_that_were_planned_by_a_killed_process_are_planned_again(tmp_path: Path) -> None:
    """study.json is written before reproduce.json."""
    plan = planned(tmp_path, PLAIN)
    before = (tmp_path / FILE).read_bytes()
    more = planned(tmp_path, PLAIN, GLOSS)
    (tmp_path / FILE).write_bytes(before)
    assert open_plan(tmp_path).jobs == plan.jobs
    assert planned(tmp_path, PLAIN, GLOSS).jobs == more.jobs


def test_damaged_or_of_another_version(tmp_path: Path) -> None:
    planned(tmp_path, PLAIN)
    forged(tmp_path, lambda saved: saved.update(fedflat="0.0.1"))
    with pytest.raises(RunError, match=r"was made by fedflat 0\.0\.1"):
        open_plan(tmp_path)
    assert open_plan(tmp_path, reading=True).title == "Mine"
    (tmp_path / FILE).write_text("{")
    with pytest.raises(RunError, match="is damaged"):
        open_plan(tmp_path)


def test_a_plan_that_is_not_what_it_should_be_is_named(tmp_path: Path) -> None:
    """Field and file, whatever stands there; a named pipe is not waited for."""
    planned(tmp_path, PLAIN)
    saved = json.loads((tmp_path / FILE).read_text())
    saved["entries"][0]["stop"] = "soon"
    (tmp_path / FILE).write_text(json.dumps(saved))
    with pytest.raises(
        RunError,
        match=r"reproduce.json is damaged \(entries\[0\].stop must be a whole number, found",
    ):
        open_plan(tmp_path)
    (tmp_path / FILE).unlink()
    os.mkfifo(tmp_path / FILE)
    with pytest.raises(RunError, match="it is a named pipe, not a file"):
        open_plan(tmp_path)


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "lock").symlink_to(precious)
    with pytest.raises(RunError, match="could not be written"), alone(tmp_path / "folder"):
        pass
    assert precious.read_text() == "mine"
