"""Tables of papers whose numbers are not accuracies."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from fedflat.errors import RunError, SettingError
from fedflat.experiments.run_folder.schema import signed, verified
from fedflat.papers.reproduce.cells import TableCell
from fedflat.papers.reproduce.export import as_csv, as_json, markdown
from fedflat.papers.reproduce.plan import (
    FILE,
    PlannedCell,
    PlanRequest,
    TablePlan,
    new_plan,
    open_plan,
)
from fedflat.papers.reproduce.status import CellStatus, Seed, final_values, measurement
from fedflat.papers.reproduce.verdict import (
    ANOTHER,
    DIFFERS,
    NO_BASELINE,
    ORDER,
    WITHIN,
    TableLine,
    decimals,
    lines,
    order,
    verdict,
)
from fedflat.tasks.headline import ACCURACY, Headline

RMSE = Headline("rmse", higher_is_better=False)
ARGUMENTS = {"on": "digits(lda(0))", "model": "mlp()", "rounds": 100, "method": "fedavg()"}


def status(name: str, reported: float, *values: float, headline: Headline = RMSE) -> CellStatus:
    cell = TableCell(
        name=f"paper/{name}", arguments=ARGUMENTS, reported=reported, measure=headline.name
    )
    seeds = [
        Seed(i, f"{name}/{i}", "done", 100, 1.0, [(100, value)], value, 1)
        for i, value in enumerate(values)
    ]
    return CellStatus(PlannedCell(cell, 100, False, ["server"], 10, {}, headline), seeds)


def test_a_run_is_read_by_its_headline() -> None:
    entry = status("a", 0.5).entry
    row = {
        "round": 5,
        "models": {"server": {"rmse": 0.25, "accuracy": 0.9}, "swa": {}},
        "personal": 0.125,
    }
    assert measurement(entry, row) == 0.25
    own = replace(entry, cell=replace(entry.cell, measure="personal"))
    assert measurement(own, row) == 0.125
    assert final_values(own, [(1, 0.5), (2, 0.25), (3, 0.75)]) == [
        0.25
    ]  # the least is the best round
    shares = replace(entry, headline=Headline("miou", "mIoU", "%", 100.0))
    assert measurement(shares, {"models": {"server": {"miou": 0.25}}}) == 25
    unseen = replace(shares, cell=replace(entry.cell, measure="tests.unseen"))
    assert (
        measurement(
            unseen, {"models": {"server": {"miou": 0.25, "tests": {"unseen": {"miou": 0.125}}}}}
        )
        == 12.5
    )
    assert math.isnan(measurement(unseen, {"models": {"server": {"miou": 0.25}}}))


@pytest.mark.parametrize(
    ("value", "word"), [(0.512, WITHIN), (0.5164, WITHIN), (0.52, DIFFERS), (0.5, DIFFERS)]
)
def test_a_hundredth_of_the_number_where_no_spread_is_printed(value: float, word: str) -> None:
    """0.512 ± 0.00512, ours rounded to three places; a whole point would be twice the number."""
    output = verdict(status("a", 0.512, value), [])
    assert output.word == word
    assert output.why == (
        "±1 % assumed, none is printed" if word == WITHIN else f"by {round(value - 0.512, 3):+.3f}"
    )


def test_the_order_of_the_paper_is_judged_as_it_is_printed() -> None:
    low, high = status("low", 0.2, 0.25), status("high", 0.4, 0.45)
    assert order(low, [high]) == order(high, [low]) == ORDER
    assert order(status("low", 0.2, 0.5), [high]) == ANOTHER
    assert (
        order(low, [status("high", 40.0, 45.0, headline=ACCURACY)]) == NO_BASELINE
    )  # not the same score


def test_digits_of_small_numbers() -> None:
    assert decimals(status("a", 1e-5).entry.cell) == 5


def plan(tmp_path: Path, *standings: CellStatus) -> tuple[TablePlan, list[TableLine]]:
    made = {
        "command": "fedflat reproduce mine.toml",
        "when": "now",
        "fedflat": "0",
        "python": "3",
        "torch": "2",
        "processor": "x",
        "cores": 2,
        "system": "y",
    }
    shown = [TableLine(one.entry.cell.name[6:], one, verdict(one, [])) for one in standings]
    return TablePlan(tmp_path, "Mine", "me", [made], [one.entry for one in standings], []), shown


def test_the_files_of_a_table_without_a_unit(tmp_path: Path) -> None:
    made = plan(tmp_path, status("a", 0.512, 0.5163, 0.5165))
    text = markdown(*made)
    assert "| cell | method | paper | ours | difference |" in text
    assert "| 0.512 | 0.5164 ± 0.0001 | +0.004 |" in text
    assert "±1 % of the number is assumed" in text
    (row,) = csv.DictReader(line for line in io.StringIO(as_csv(*made)) if not line.startswith("#"))
    assert (row["headline"], row["ours"]) == ("rmse", "0.5164")
    assert json.loads(as_json(*made))["cells"][0]["headline"] == "rmse"


def test_the_files_of_a_table_of_two_scores(tmp_path: Path) -> None:
    made = plan(tmp_path, status("a", 0.512, 0.512), status("b", 90.0, 90.0, headline=ACCURACY))
    rows = [line.split(" | ") for line in markdown(*made).splitlines() if line.startswith("|")]
    assert rows[0][2:5] == ["score", "paper", "ours"]
    assert [row[2:5] for row in rows[2:]] == [
        ["rmse", "0.512", "0.5120"],
        ["accuracy %", "90.0", "90.00"],
    ]
    found = list(
        csv.DictReader(line for line in io.StringIO(as_csv(*made)) if not line.startswith("#"))
    )
    assert [row["headline"] for row in found] == ["rmse", "accuracy"]


def test_accuracies_are_written_as_they_were(tmp_path: Path) -> None:
    made = plan(tmp_path, status("b", 90.0, 90.0, headline=ACCURACY))
    assert "| paper % | ours % |" in markdown(*made)
    assert "headline" not in as_csv(*made)
    assert "headline" not in as_json(*made)


def test_the_folder_keeps_what_cells_are_judged_by(tmp_path: Path) -> None:
    """And a damaged one is a sentence; folders of before mean the accuracy."""
    cell = TableCell(
        name="mine/a", arguments={**ARGUMENTS, "rounds": 2, "clients_per_round": 2}, reported=50.0
    )
    new_plan(tmp_path / "t", "Mine", "me").added([cell], PlanRequest(), "x").write()
    (entry,) = open_plan(tmp_path / "t").entries
    assert entry.headline == ACCURACY
    path = tmp_path / "t" / FILE
    saved = verified(json.loads(path.read_text()))
    saved["entries"][0]["headline"] = RMSE.as_json()
    path.write_text(json.dumps(signed(saved)))
    assert open_plan(tmp_path / "t", reading=True).entries[0].headline == RMSE
    assert lines(open_plan(tmp_path / "t", reading=True))[0].ours == "-"
    saved["entries"][0]["headline"]["factor"] = 0
    path.write_text(json.dumps(signed(saved)))
    with pytest.raises(RunError, match=r"is damaged \(headline: factor must be a number above 0"):
        open_plan(tmp_path / "t", reading=True)
    with pytest.raises(
        SettingError, match="reports 'rmse', but the headline of its run is 'accuracy'"
    ):
        new_plan(tmp_path / "u", "Mine", "me").added(
            [replace(cell, measure="rmse")], PlanRequest(), "x"
        )
