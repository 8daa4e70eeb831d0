"""Distances between the clients' descriptions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import fedflat
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.analysis.styles import compute_descriptions
from fedflat.cli.main import main
from fedflat.client.describers.weights import ClassifierWeights
from fedflat.client.instructions import LabelCounts
from fedflat.report import collect
from fedflat.report.figures import draw_figures
from report.written_runs import write_analysis, write_run


def test_cosines_components_and_norm() -> None:
    """The cosines of (1, 0), (1, 1), (-1, 0), whose matrix has the norm sqrt(7)."""
    sent = [torch.tensor(row) for row in ([1.0, 0.0], [1.0, 1.0], [-1.0, 0.0])]
    found = compute_descriptions(ClassifierWeights(), sent, "euclidean")
    half = 0.5**0.5
    expected = [[1, half, -1], [half, 1, -half], [-1, -half, 1]]
    assert np.array(found["cosines"]) == pytest.approx(np.array(expected))
    assert found["norm_of_cosines"] == pytest.approx(7**0.5)
    centred = np.array([[2, -1], [2, 2], [-4, -1]]) / 3
    first, second = np.linalg.svd(centred)[1] ** 2
    assert (first > 0.9 * (first + second)) == (found["components"] == 1)
    assert found["components_share"] == found["components"] / 2


def test_distances_are_those_of_shares() -> None:
    found = compute_descriptions(
        LabelCounts(), [torch.tensor([3, 1]), torch.tensor([0, 2])], "euclidean"
    )
    assert np.array(found["distances"]) == pytest.approx(
        np.array([[0, 0.75 * 2**0.5], [0.75 * 2**0.5, 0]])
    )


def test_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    method = "fedseq(groups=greedy(psi=label_counts(), tau='cosine', d_min=200, k_max=6))"
    quick = {"rounds": 1, "clients_per_round": 4, "threads": 1, "model": "logistic"}
    fedflat.run(method, on="digits(lda(0), clients=8)", out=tmp_path / "seq", **quick)
    arguments = [str(tmp_path / "seq"), "--analyses", "descriptions", "--quiet"]
    assert main(["analyse", *arguments]) == 0
    assert "principal components" in capsys.readouterr().out
    (file,) = (tmp_path / "seq" / "analysis").glob("descriptions*.json")
    clients = json.loads(file.read_text())["result"]["clients"]
    fed = LoadedRun(tmp_path / "seq").setup.fed
    top = [int(fed.data(client).counts(fed.classes).argmax()) for client in clients]
    assert (sorted(clients), top) == (list(range(8)), sorted(top))
    (shown,) = collect([tmp_path / "seq"])["descriptions"]
    shares = [fed.data(k).counts(fed.classes).double().numpy() for k in clients]
    expected = [
        [1 - a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) for b in shares] for a in shares
    ]
    assert np.array(shown["distances"]) == pytest.approx(np.array(expected), abs=1e-4)


def test_the_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    sent = [torch.tensor(row) for row in ([1.0, 0.0], [1.0, 1.0], [-1.0, 0.0])]
    found = compute_descriptions(ClassifierWeights(), sent, "euclidean")
    write_analysis(write_run(tmp_path / "a"), "descriptions", {}, {"clients": [0, 1, 2], **found})
    assert draw_figures(collect([tmp_path / "a"]), tmp_path / "figures", ["svg"]) == []
    made = {path.stem for path in (tmp_path / "figures").iterdir()}
    curves = {"accuracy", "loss", "train_loss"}
    assert made == curves | {"descriptions-distances", "descriptions-cosines"}


def test_a_run_without_descriptions(classes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", str(classes), "--analyses", "descriptions", "--quiet"]) == 2
    assert "send no descriptions" in capsys.readouterr().err
