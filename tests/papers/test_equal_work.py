"""The table under equal gradients: its grid, its cells and its page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fedflat.cli import main
from fedflat.errors import RunError
from fedflat.experiments.run_folder.schema import write_signed
from fedflat.papers.equal_work import grid
from fedflat.papers.equal_work.cell_run import best_trial, read_cell, run_cell
from fedflat.papers.equal_work.grid import NAME, Cell, cells
from fedflat.papers.equal_work.page import difference, page, score

ROOT = Path(__file__).parents[2]


def test_every_method_has_the_same_number_of_different_trials() -> None:
    for cell in cells():
        assert len(cell.trials) == len(set(cell.trials)) == len(cell.column.rates)


def test_methods_with_values_have_some_of_the_rates() -> None:
    for column in grid.COLUMNS.values():
        assert set(column.half) < set(column.rates)
        assert list(column.rates) == sorted(column.rates)


def test_two_gradients_per_step_have_half_the_rounds() -> None:
    assert Cell("digits", "fedavg").readings == {"gradients": 200, "bytes": 200, "rounds": 200}
    assert Cell("digits", "fedsam").readings == {"gradients": 100, "bytes": 200, "rounds": 200}
    assert Cell("digits", "scaffold").readings == {"gradients": 200, "bytes": 100, "rounds": 200}
    # Three vectors instead of two: 200 * 2 / 3.
    assert Cell("digits", "mofedsam").readings == {"gradients": 100, "bytes": 133, "rounds": 200}


def test_a_diverged_trial_is_not_chosen() -> None:
    assert best_trial([None, 50.0, 70.0, 70.0]) == 2
    assert best_trial([None, None]) is None


def test_a_reading_is_the_mean_of_the_last_evaluations_before_it() -> None:
    curve = [[2, 10.0, 1], [4, 20.0, 2], [6, 40.0, 3], [8, 90.0, 4]]
    assert score({"diverged": False, "curve": curve}, 6, 4) == 30.0
    assert score({"diverged": True, "curve": curve}, 8, 4) == 65.0
    assert score({"diverged": True, "curve": curve}, 10, 4) is None


def test_the_interval_is_students() -> None:
    """Differences 1, 2 and 3: mean 2, deviation 1, so 4.303 / sqrt(3) = 2.484 on each side."""
    assert difference([11.0, 12.0, 13.0], [10.0, 10.0, 10.0]) == "+2.00 [-0.48, +4.48]"
    assert difference([11.0, None, 13.0], [10.0, 10.0, 10.0]) == ""


def test_the_page_is_that_of_the_results() -> None:
    """`python docs/leaderboard.py` writes it."""
    assert (ROOT / "docs/leaderboard.md").read_text() == page(ROOT / "results/equal-gradients")


def test_a_cell_is_run_continued_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = replace(grid.COLUMNS["digits"], rounds=4, window=2)
    monkeypatch.setitem(grid.COLUMNS, "digits", small)
    cell = Cell("digits", "fedsam")
    printed: list[str] = []
    trials = len(cell.trials)

    def stop(text: str) -> None:
        printed.append(text)
        if len(printed) == trials + 1:  # after the first seed
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_cell(cell, tmp_path, stop, 60)
    done = sorted(path.parent.name for path in (tmp_path / cell.name).glob("*/run.json"))
    assert done == ["seed-0", *(f"trial-{place}" for place in range(trials))]
    first = (tmp_path / cell.name / "seed-0" / "metrics.jsonl").read_bytes()
    with monkeypatch.context() as other:
        other.setitem(grid.COLUMNS, "digits", replace(small, half=(0.1, 0.2, 0.3, 0.4)))
        with pytest.raises(RunError, match="for another grid"):
            run_cell(cell, tmp_path, lambda text: None, 60)
    path = run_cell(cell, tmp_path, lambda text: None, 60)
    assert (tmp_path / cell.name / "seed-0" / "metrics.jsonl").read_bytes() == first
    content = read_cell(path)
    # Every round in the two before the stop at equal gradients, round 2, and before the end.
    assert [point[0] for point in content["seeds"][1]["curve"]] == [1, 2, 3, 4]
    assert all(one["lambda_1"] > 0 and one["norm"] > 0 for one in content["seeds"])
    assert main(["reproduce", NAME, "--table", "--out", str(tmp_path)]) == 0
    assert "| `fedsam` | `fedsam(rho=" in capsys.readouterr().out

    path.write_text(path.read_text().replace('"lr": 0.1', '"lr": 0.3', 1))
    with pytest.raises(RunError, match="digest"):
        read_cell(path)
    worse = {**content, "chosen": (content["chosen"] + 1) % trials}
    write_signed(path, worse)
    with pytest.raises(RunError, match="the validation set chooses"):
        read_cell(path)
    write_signed(path, {**content, "definition": "0"})
    with pytest.raises(RunError, match="another grid"):
        run_cell(cell, tmp_path, lambda text: None, 60)


def test_every_stored_cell_names_its_commit() -> None:
    for path in (ROOT / "results/equal-gradients").glob("*.json"):
        commit = json.loads(path.read_text())["made"]["commit"]
        assert commit, path
        assert not commit.endswith("+"), path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cells", "digits-fedsan"], "no cell of flat/equal-gradients matches 'digits-fedsan'"),
        ([], "name cells of flat/equal-gradients"),
        (["--cells", "digits-*", "--seeds", "5"], "Leave out --seeds"),
    ],
)
def test_wrong_use_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", NAME, *words]) == 2
    assert message in capsys.readouterr().err


def test_the_list_has_the_selected_cells(capsys: pytest.CaptureFixture[str]) -> None:
    def listed(*words: str) -> list[str]:
        assert main(["reproduce", NAME, "--list", *words]) == 0
        lines = capsys.readouterr().out.splitlines()
        return [line.split()[0] for line in lines if line.startswith("  ")]

    assert listed() == [cell.name for cell in cells()]
    assert listed("--cells", "digits-{fedsam,fedavg}") == ["digits-fedavg", "digits-fedsam"]
    assert main(["reproduce", NAME, "--list", "--cells", "digits-fedsan"]) == 2
    assert "no cell of flat/equal-gradients matches 'digits-fedsan'" in capsys.readouterr().err
