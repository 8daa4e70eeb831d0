"""Pictures, confusions and styles on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedflat.report import collect
from report.test_headlines import MIOU, RMSE
from report.written_runs import (
    picture,
    write_analysis,
    write_headline_run,
    write_pictures,
    write_run,
)


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two methods on the same examples."""
    found = [
        write_headline_run(tmp_path / name, MIOU, [0.2, 0.4], method=f"{name}()")
        for name in ("fedavg", "fedsam")
    ]
    for guess, run in enumerate(found):
        write_pictures(run, 100 + guess)
    return found


def test_what_methods_share_is_in_the_page_once(runs: list[Path]) -> None:
    found = collect(runs)
    assert [found["album"][place] for place in range(4)] == [
        picture(1),
        picture(2),
        picture(100),
        picture(101),
    ]
    assert len(found["album"]) == 4
    first, second = found["pictures"]
    assert first["sets"]["test"][0] == {
        "place": 3,
        "score": 0.5,
        "domain": "rome",
        "image": 0,
        "truth": 1,
        "mask": 2,
    }
    assert second["sets"]["unseen"] == [
        {"place": 0, "score": 0.25, "domain": "", "image": 0, "truth": 1, "mask": 3}
    ]
    assert len(found["styles"]) == 1  # both are of the same clients
    assert [one["cluster"] for one in found["styles"][0]["clients"]] == [0, 1, 0]


def test_what_is_missing_goes_by_what_runs_are_judged_by(tmp_path: Path, runs: list[Path]) -> None:
    """Masks have pictures, numbers have no classes, and corruptions are of the score itself."""
    output = collect(runs)["missing"][0]
    assert output.startswith("Not analysed: confusion matrices, eigenvalues")
    assert "scores on corrupted images" in output
    other = write_headline_run(tmp_path / "rmse", RMSE, [1.0, 0.9])
    output = collect([other])["missing"][0]
    assert output.startswith("Not analysed: eigenvalues")
    assert "scores on corrupted images" in output
    assert "accura" not in output
    assert "scores on corrupted images" in collect([write_run(tmp_path / "run")])["missing"][0]
    write_headline_run(tmp_path / "more", MIOU, [0.1, 0.2], method="fedprox()")
    assert "No pictures of masks of fedprox()." in collect([*runs, tmp_path / "more"])["missing"]


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        ("pictures", {"names": [], "colours": [], "sets": {}}),
        ("pictures", {"names": ["a"], "colours": [[0, 0, 256]], "sets": {"test": []}}),
        (
            "pictures",
            {
                "names": ["a"],
                "colours": [[0, 0, 0]],
                "sets": {
                    "test": [{"place": 0, "image": "javascript:alert(1)", "truth": "", "mask": ""}]
                },
            },
        ),
        ("confusion", {"names": ["a", "b"], "sets": {"test": [[1, 2], [3]]}}),
        ("confusion", {"names": ["a"], "sets": {}}),
        ("styles", {"clients": [], "shares": []}),
        (
            "styles",
            {
                "clients": [{"client": 0, "x": 0, "y": 0, "cluster": 0, "image": "x"}],
                "shares": [1.0, 0.0],
            },
        ),
        (
            "styles",
            {"clients": [{"client": 0, "x": "0", "y": 0, "cluster": 0}], "shares": [1.0, 0.0]},
        ),
    ],
)
def test_what_is_no_picture_is_left_out_and_reported(
    tmp_path: Path, kind: str, result: dict[str, object]
) -> None:
    run = write_run(tmp_path / "run")
    path = write_analysis(run, kind, {"model": "server"}, result)
    found = collect([run])
    assert found[kind] == []
    assert [output for output in found["problems"] if str(path) in output and "damaged" in output]
