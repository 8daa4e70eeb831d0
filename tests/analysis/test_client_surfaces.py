"""Loss surfaces of clients' models on their own data and on everyone's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from fedflat.analysis.loaded_run import LoadedRun
from fedflat.analysis.local_global import next_cohort, trained_client_models
from fedflat.cli.main import main
from fedflat.core.flat import Model
from fedflat.data.examples import ClientData
from fedflat.report import collect
from fedflat.report.figures import draw_figures
from report.written_runs import write_analysis, write_run


def loss_at(loaded: LoadedRun, model: Model, data: ClientData) -> float:
    """The mean loss of a model, by torch alone."""
    learner = loaded.setup.job.learner
    learner.load(model)
    batch = data.batch(torch.arange(len(data)), torch.float32)
    with torch.no_grad():
        return float(cross_entropy(learner.flat.module(batch.inputs), batch.targets))


def test_the_middle_is_the_client_model(classes: Path) -> None:
    what = "client_surfaces(clients=2, points=3, span=0.5)"
    assert main(["analyse", str(classes), "--analyses", what, "--examples", "all", "--quiet"]) == 0
    (file,) = (classes / "analysis").glob("client_surfaces*.json")
    found = json.loads(file.read_text())["result"]["surfaces"]
    loaded = LoadedRun(classes)
    fed, models = loaded.setup.fed, trained_client_models(loaded)
    assert [one["client"] for one in found] == next_cohort(loaded)
    for one in found:
        model = models[one["client"]]
        own, union = fed.data(one["client"]), fed.pooled().data(0)
        assert one["own"][1][1] == pytest.approx(loss_at(loaded, model, own), rel=1e-5)
        assert one["everyone"][1][1] == pytest.approx(loss_at(loaded, model, union), rel=1e-5)
        assert one["x"] == [-0.5, 0.0, 0.5]
    (shown,) = collect([classes])["client_surfaces"]
    table = shown[f"client_{found[0]['client']}_on_its_own_data"]
    assert table[1][1] == pytest.approx(found[0]["own"][1][1], rel=1e-3)


def test_figures_of_two_methods(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    axis = [-1.0, 0.0, 1.0]
    for name in ("fedavg()", "fedsam()"):
        bowl = [[x * x + y * y for x in axis] for y in axis]
        one = {"client": 4, "class": 7, "x": axis, "y": axis, "own": bowl, "everyone": bowl}
        run = write_run(tmp_path / name, method=name)
        write_analysis(run, "client_surfaces", {}, {"round": 10, "surfaces": [one]})
    document = collect([tmp_path / "fedavg()", tmp_path / "fedsam()"])
    assert draw_figures(document, tmp_path / "figures", ["svg"]) == []
    made = {path.stem for path in (tmp_path / "figures").iterdir()}
    clients = {"client-surfaces", "client-surfaces-2", "client-surfaces-together"}
    assert made == {"accuracy", "loss", "train_loss"} | clients
