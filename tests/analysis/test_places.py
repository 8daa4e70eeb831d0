"""The map of a retrieval run: every query, right or wrong, and images side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from fedflat.analysis.places import areas_of, examples_of
from fedflat.cli import main
from fedflat.registry.specs import parse
from fedflat.tasks.recall import Retrieved

ON = (
    "street(targets='place', towns=2, clients=4, examples=16, width=24, height=16, tests=8, "
    "unseen_weather='', seed=0)"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("places") / "run"
    words = ["run", "fedavg", "--on", ON, "--task", "retrieval(width=8)", "--model"]
    words += ["embedder(width=4)", "--rounds", "2", "--clients-per-round", "2", "--quiet"]
    assert main([*words, "--out", str(folder)]) == 0
    return folder


def test_the_map_agrees_with_the_scores(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", str(run), "--places", "2", "--quiet"]) == 0
    assert "places: test " in capsys.readouterr().out
    [path] = (run / "analysis").glob("places-*.json")
    found = json.loads(path.read_text())["result"]
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    for name, scores in {"test": last, **last["tests"]}.items():
        if "/" in name:
            continue
        shown = found["sets"][name]
        assert shown["recall"] == [scores[f"recall@{n}"] for n in (1, 5, 10)]
        assert len(shown["queries"]) == len(shown["database"]) == 8
        counted = [one for one in shown["queries"] if one["possible"]]
        assert sum(one["right"] for one in counted) / len(counted) == scores["recall@1"]
        assert all((one["metres"] <= 25) == one["right"] for one in shown["queries"])
        assert all(one["query"] and one["found"] for one in shown["examples"])
    assert {one["area"] for one in found["sets"]["unseen_towns"]["queries"]} == {"town2"}
    assert [one["client"] for one in found["clients"]] == [0, 1, 2, 3]


def test_the_report_shows_it(run: Path, tmp_path: Path) -> None:
    assert main(["analyse", str(run), "--places", "2", "--quiet"]) == 0
    assert main(["report", str(run), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "drawPlaces" in page
    assert '"without_positive":0' in page.replace(" ", "")


def test_a_task_without_places_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "fedavg", "--on", "digits(clients=10)", "--rounds", "1", "--quiet"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    assert main(["analyse", str(tmp_path / "run"), "--places", "--quiet"]) == 2
    assert "a map needs the task retrieval(), found classification()" in capsys.readouterr().err


def test_right_and_wrong_queries_are_shown() -> None:
    right = torch.tensor([[True], [False], [True], [False], [True], [False]])
    possible = torch.tensor([True, True, True, True, True, False])
    found = Retrieved(torch.zeros(6, 1, dtype=torch.long), right, possible)
    assert examples_of(found, 2) == [0, 2, 1, 3] or examples_of(found, 2) == [0, 4, 1, 3]
    assert examples_of(found, 9) == [0, 2, 4, 1, 3]


def test_areas_are_towns() -> None:
    data = parse(ON, "data set").open(0).data(1)
    assert set(areas_of(data)) == {"town1"}
