"""Cells that report rounds to a target, cost, speed-up and curvature."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from fedflat.cli import main
from fedflat.errors import SettingError, SpellingError
from fedflat.papers.presets.preset import reference
from fedflat.papers.reproduce.cells import TableCell
from fedflat.papers.reproduce.flatness_file import flatness_path, measured, write_flatness
from fedflat.papers.reproduce.plan import PlannedCell, open_plan
from fedflat.papers.reproduce.selection import Table, with_references
from fedflat.papers.reproduce.status import CellStatus, Goal, Seed, final_values
from fedflat.papers.reproduce.verdict import DIFFERS, NONE, OPEN, WITHIN, TableLine, verdict

ARGUMENTS = {"on": "cifar10(lda(0))", "model": "cnn()", "rounds": 10_000, "method": "fedavg()"}


def cell(name: str, reported: float | None = None, **more: Any) -> TableCell:
    return TableCell(name=f"paper/{name}", arguments=ARGUMENTS, reported=reported, **more)


def planned(of: TableCell, stop: int = 10_000, **more: Any) -> PlannedCell:
    return PlannedCell(of, stop, False, ["server"], 100, {}, **more)


CURVE = [(100 * i, 10.0 * i) for i in range(1, 8)]
ROWS = [{"round": r, "down": 3.0 * r, "up": 5.0 * r} for r, _ in CURVE]


@pytest.mark.parametrize(
    ("measure", "score", "number"),
    [
        ("rounds", 35.0, 400.0),
        ("rounds", 40.0, 400.0),  # at least the target
        ("speedup", 35.0, 2.5),  # 1000 rounds of the reference
        ("cost", 35.0, 400 * 8 / (1000 * 4)),  # it sends half as much in a round
        ("rounds", 70.1, math.nan),
        ("cost", math.nan, math.nan),
    ],
)
def test_what_it_took_to_reach_a_target(measure: str, score: float, number: float) -> None:
    goal = Goal(score, True, 1000, 4.0)
    entry = planned(cell("a", measure=measure, target=50.0))
    assert goal.number(entry, CURVE, ROWS) == pytest.approx(number, nan_ok=True)


def test_the_cost_of_fedsmoo_is_rounded_as_in_the_paper() -> None:
    """1,900 of 10,000 rounds, two vectors in each direction where FedAvg has one: 0.38 B."""
    curve, rows = [(1900, 60.0)], [{"round": 1900, "down": 2.0 * 1900, "up": 2.0 * 1900}]
    entry = planned(cell("fedsmoo", 0.4, measure="cost", target="paper/fedavg"))
    assert Goal(59.9, True, 10_000, 2.0).number(entry, curve, rows) == pytest.approx(0.38)


def test_a_score_after_a_share_of_the_rounds() -> None:
    curve = [(r, float(r)) for r in range(100, 10_001, 100)]
    half = planned(cell("half", at=0.5))
    assert final_values(half, curve) == [5000.0]
    assert final_values(half, curve[:49]) == []
    assert final_values(planned(cell("end")), curve) == [10_000.0]


def stands(of: TableCell, value: float, goal: Goal | None, **more: Any) -> CellStatus:
    stop = more.pop("stop", 10_000)
    seed = Seed(0, "x/seed-0", "running", stop, 1.0, [], value, 9, **more)
    return CellStatus(planned(of, stop), [seed], goal)


def test_verdicts_of_targets() -> None:
    known, open_ = Goal(59.9, True, 10_000, 1.0), Goal(59.9, False, 10_000, 1.0)
    reached = cell("fedprox", 7600, measure="rounds", target="paper/fedavg")
    never = cell("scaffold", measure="rounds", target="paper/fedavg", unreached=True)
    assert reached.figure == "7600"
    assert never.figure == "-"
    assert verdict(stands(reached, 7600.0, known), []).word == WITHIN
    assert verdict(stands(reached, 5000.0, known), []).word == DIFFERS
    # Reached early: later rounds do not change it, but the target may.
    assert verdict(stands(reached, 7600.0, known, stop=8000), []).word == WITHIN
    assert verdict(stands(reached, 7600.0, open_, stop=8000), []).word == OPEN
    nan = math.nan
    missed = {"unreached": True}
    assert str(verdict(stands(reached, nan, known, **missed), [])) == "differs (not reached)"
    assert verdict(stands(reached, nan, known, stop=500, **missed), []).word == OPEN
    agreed = "within the paper's spread (not reached in the paper either)"
    assert str(verdict(stands(never, nan, known, **missed), [])) == agreed
    assert str(verdict(stands(never, 900.0, known), [])) == "differs (reached)"
    assert verdict(stands(never, nan, known, stop=500, **missed), []).word == OPEN
    assert verdict(stands(cell("own", measure="rounds", target=50.0), 3.0, known), []).word == NONE


def test_a_target_that_some_seeds_reach() -> None:
    known = Goal(59.9, True, 10_000, 1.0)
    seeds = [
        Seed(0, "x/seed-0", "done", 10_000, 1.0, [], 900.0, 9),
        Seed(1, "x/seed-1", "done", 10_000, 1.0, [], math.nan, 9, unreached=True),
    ]
    for measure, shown in (("rounds", "900 (1 of 2 seeds)"), ("cost", "900.0 (1 of 2 seeds)")):
        for paper in ({"unreached": True}, {"reported": 900.0}):
            of = cell("scaffold", measure=measure, target="paper/fedavg", **paper)
            status = CellStatus(planned(of, 10_000), seeds, known)
            found = verdict(status, [])
            assert str(found) == "differs (reached by 1 of 2 seeds)"
            assert TableLine("scaffold", status, found).ours == shown


def test_a_target_needs_a_cell_that_reports_a_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fedgloss/table5", "--cells", "cifar10-cnn-alpha0-feddyn-cost", "--target", "10"]
    assert main(["reproduce", *words, "--out", str(tmp_path / "out")]) == 2
    assert "--target adds to cells that report a score" in capsys.readouterr().err


def test_cells_whose_scores_are_targets_are_added() -> None:
    fedavg, prox = cell("fedavg", 60.0), cell("prox", 7600, measure="rounds", target="0.9*fedavg")
    table = Table("paper/table5", "", "", (fedavg, prox))
    [first, second] = with_references([prox], table)
    assert first is fedavg
    assert second.target == "0.9*paper/fedavg"
    [preset, _] = with_references([cell("x", measure="rounds", target="man/cifar10-iid")], table)
    assert preset.name == "man/cifar10-iid-fedavg-man"
    with pytest.raises(SettingError, match=r"must be a score, and paper/prox reports rounds"):
        with_references([cell("y", measure="cost", target="prox")], table)
    with pytest.raises(SpellingError, match="unknown preset 'fedavgg'"):
        with_references([cell("y", measure="cost", target="fedavgg")], table)
    for wrong in ("x*fedavg", "0*fedavg", "0.7*", "-1*fedavg"):
        with pytest.raises(SettingError, match="a factor and a name"):
            reference(wrong)


def test_the_file_of_curvature(tmp_path: Path) -> None:
    run, entry = tmp_path / "seed-0", planned(cell("a", measure="lambda_1"), 40, examples=7)
    assert measured(run, entry) is None
    key = {"models": ["server"], "model": "server", "set": "test", "examples": 7}
    write_flatness(run, [{**key, "round": 40, "values": {"lambda_1": 2.5, "ratio": None}}])
    assert measured(run, entry) == 2.5
    assert math.isnan(measured(run, planned(cell("a", measure="ratio"), 40, examples=7)) or 0)
    assert measured(run, planned(cell("a", measure="trace"), 40, examples=7)) is None
    assert measured(run, planned(cell("a", measure="lambda_1"), 41, examples=7)) is None
    assert measured(run, planned(cell("a", measure="lambda_1"), 40)) is None
    text = flatness_path(run).read_text()
    flatness_path(run).write_text(text.replace("2.5", "2.6"))
    assert measured(run, entry) is None


SETTINGS: dict[str, Any] = {
    "on": "digits(lda(0), clients=10)",
    "model": "mlp(hidden=[4])",
    "rounds": 12,
    "clients_per_round": 2,
    "eval_every": 2,
    "eval_last": 2,
}
MINE: list[dict[str, Any]] = [
    {"name": "avg", "method": "fedavg()", "reported": 50.0},
    {
        "name": "avg-flat",
        "method": "fedavg() + wima(window=2)",
        "measure": "lambda_1",
        "reported": 9,
    },
    {"name": "avg-half", "method": "fedavg()", "measure": "rounds", "target": "0.5*avg"},
    {"name": "avg-never", "method": "fedavg()", "measure": "rounds", "target": 99, "reported": "-"},
    {"name": "sam-cost", "method": "fedsam(rho=0.05)", "measure": "cost", "target": 5},
    {"name": "sam-own", "method": "fedsam(rho=0.05)", "measure": "local_lambda_1", "set": "train"},
]


def reproduce(*words: object) -> int:
    return main(["reproduce", "--quiet", "--nice", "0", "--jobs", "2", *map(str, words)])


def rows_of(run: Path) -> list[tuple[int, float]]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [(row["round"], 100 * row["accuracy"]) for row in map(json.loads, lines)]


@pytest.mark.slow
def test_a_table_with_all_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = tmp_path / "mine.json", tmp_path / "out"
    table.write_text(json.dumps({"settings": SETTINGS, "rows": MINE}))
    assert reproduce(table, "--out", out, "--examples", 60, "--rounds", 6) == 0
    cut = (out / "avg" / "seed-0-flatness.json").read_text()
    assert reproduce(table, "--out", out, "--examples", 60) == 0
    assert (out / "avg" / "seed-0-flatness.json").read_text() != cut  # of the last round now
    cells = {one["cell"]: one for one in json.loads((out / "table.json").read_text())["cells"]}
    found = {name.partition("/")[2]: one["ours"] for name, one in cells.items()}
    # One run of FedAvg for four cells, one of FedSAM for two.
    assert {run for one in cells.values() for run in one["runs"]} == {
        "avg/seed-0",
        "sam-cost/seed-0",
    }
    curve = cells["mine/avg"]["by_seed"][0]["curve"]
    first = next(r for r, value in curve if value >= 0.5 * found["avg"])
    assert found["avg-half"] == first
    assert found["avg-never"] is None
    assert cells["mine/avg-never"]["verdict"] == "within the paper's spread"
    sam = next(r for r, value in rows_of(out / "sam-cost" / "seed-0") if value >= 5)
    assert found["sam-cost"] == pytest.approx(sam / 12, abs=1e-4)
    assert found["avg-flat"] > 0
    assert found["sam-own"] > 0
    [row] = [one for one in open_plan(out).entries if one.cell.name == "mine/avg-flat"]
    assert measured(out / "avg" / "seed-0", row) == pytest.approx(found["avg-flat"], abs=1e-4)
    # Nothing is left to do, and nothing is measured again.
    before = flatness_path(out / "avg" / "seed-0").stat().st_mtime_ns
    assert reproduce("--resume", out) == 0
    assert flatness_path(out / "avg" / "seed-0").stat().st_mtime_ns == before
    text = (out / "table.md").read_text()
    assert "| avg-never | `fedavg()` | rounds to the target | - | - |" in text
    assert "| avg-flat | `fedavg() + wima(window=2)` | lambda_1 | 9 |" in text
    capsys.readouterr()
    assert reproduce(table, "--out", out, "--cells", "avg", "--flatness", "lambda", "--quiet") == 2
    assert "--flatness: 'lambda' is not known. Did you mean" in capsys.readouterr().err
