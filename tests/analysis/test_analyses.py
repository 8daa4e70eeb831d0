from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from fedflat.analysis.analysis import Analysis, AnalysisResult, OnProgress, Scope
from fedflat.analysis.analysis_store import AnalysisStore
from fedflat.analysis.kinds.corruptions import CorruptionsAnalysis
from fedflat.analysis.kinds.curvature import CurvatureAnalysis
from fedflat.analysis.kinds.interpolate import InterpolateAnalysis
from fedflat.analysis.kinds.local_global import LocalGlobalAnalysis
from fedflat.analysis.kinds.partition import PartitionAnalysis
from fedflat.analysis.kinds.plane import PlaneAnalysis
from fedflat.analysis.kinds.surface import SurfaceAnalysis
from fedflat.analysis.loaded_run import LoadedRun, loaded_runs, one_model
from fedflat.cli.main import main
from fedflat.errors import RunError, SettingError
from fedflat.experiments.api import compare, run
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.progress import Progress
from fedflat.experiments.study import Reporter, resume, run_one
from fedflat.tasks.headline import ACCURACY, Headline

ON = "digits(lda(0), clients=20)"
QUICK: dict[str, Any] = {
    "on": ON,
    "rounds": 3,
    "clients_per_round": 3,
    "lr": 0.1,
    "model": "mlp(hidden=[4])",
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three methods, of which one has a dual for each client and one an average."""
    folder = tmp_path_factory.mktemp("runs") / "study"
    compare(
        ["fedavg", "feddyn(alpha=0.1)", "fedsam(rho=0.1) + ema(gamma=0.5)"], out=folder, **QUICK
    )
    return folder


def silent(done: float, total: float, what: str) -> None:
    assert 0 <= done <= total


def of_first(analysis: Analysis, scope: Scope) -> AnalysisResult:
    """The result of an analysis of several models, which is stored with the first run."""
    ((_, same, loaded),) = analysis.jobs([])
    return same.analyse(loaded, scope, silent)


def loss_by_hand(loaded: LoadedRun, params: torch.Tensor) -> float:
    """The mean loss on the test set with plain PyTorch."""
    module, test = loaded.setup.job.learner.module(), loaded.setup.fed.test
    torch.nn.utils.vector_to_parameters(params, module.parameters())
    batch = test.batch(torch.arange(len(test)), torch.float32)
    with torch.no_grad():
        return float(cross_entropy(module(batch.inputs), batch.targets))


def test_a_study_is_its_runs(study: Path) -> None:
    runs = loaded_runs([study])
    assert [run.experiment.method for run in runs] == [
        LoadedRun(r.folder).experiment.method for r in runs
    ]
    assert len(runs) == 3
    assert list(runs[2].models) == ["server", "ema"]
    assert runs[2].model(None)[0] == "ema"
    assert runs[0].model(None)[0] == "server"


def test_curvature_is_of_the_model_and_known_the_second_time(study: Path) -> None:
    loaded = loaded_runs([study])[0]
    analysis = CurvatureAnalysis(k=1, probes=2, layers=True, rho=0.1)
    found = analysis.analyse(loaded, Scope(), silent)
    assert found.fresh
    assert found.result["loss"] == pytest.approx(
        loss_by_hand(loaded, loaded.models["server"].params), rel=1e-5
    )
    assert {"lambda_1", "trace", "layers", "sharpness"} <= found.result.keys()
    again = analysis.analyse(loaded, Scope(), silent)
    assert not again.fresh
    assert again.result == json.loads(json.dumps(found.result))
    assert analysis.analyse(loaded, Scope(seed=1, examples=50), silent).fresh


def test_an_interrupted_surface_goes_on(study: Path) -> None:
    loaded = loaded_runs([study])[1]
    points = 0

    def stop(done: float, total: float, what: str) -> None:
        nonlocal points
        points += 1
        if points == 5:
            raise KeyboardInterrupt

    def surface(on_progress: OnProgress) -> AnalysisResult:
        return SurfaceAnalysis(points=3, span=0.5).analyse(loaded, Scope(), on_progress)

    with pytest.raises(KeyboardInterrupt):
        surface(stop)
    (part,) = (loaded.folder / "analysis").glob("surface-*.part.json")
    known = len(json.loads(part.read_text())["found"])
    assert 0 < known < 9
    points = -100
    found = surface(stop)
    assert points == -100 + 9 - known
    assert not part.exists()
    centre = loss_by_hand(loaded, loaded.models["server"].params)
    assert found.result["loss"][1][1] == pytest.approx(centre, rel=1e-4)
    assert found.result["center"]["loss"] == pytest.approx(centre, rel=1e-4)


def test_lines_and_planes_go_through_the_models(study: Path) -> None:
    runs = loaded_runs([study])
    names = [str(run.folder) for run in runs]
    line = of_first(InterpolateAnalysis(names[0], names[1]), Scope()).result
    ends = [loss_by_hand(run, run.models["server"].params) for run in runs[:2]]
    assert line["loss"][line["gamma"].index(1.0)] == pytest.approx(ends[0], rel=1e-4)
    assert line["loss"][line["gamma"].index(0.0)] == pytest.approx(ends[1], rel=1e-4)
    plane = of_first(
        PlaneAnalysis((names[0], names[1], f"{names[2]}:server")), Scope(examples=20)
    ).result
    assert len(plane["points"]) == 3
    assert "fedavg()" in plane["points"][0]["name"]


def test_clients_models_and_their_sharpness(study: Path) -> None:
    """The duals that FedDyn's clients remember are those of the run."""
    loaded = loaded_runs([study])[1]
    assert any(loaded.state.clients.state(client) for client in range(20))
    plane = PlaneAnalysis(("clients",)).analyse(loaded, Scope(examples=20), silent).result
    assert [p["name"].partition(" ")[0] for p in plane["points"]] == ["client"] * 3
    found = LocalGlobalAnalysis().analyse(loaded, Scope(examples=50), silent).result
    assert found["round"] == 3
    assert len(found["clients"]) == 3
    assert found["local"] == pytest.approx(sum(row["local"] for row in found["clients"]) / 3)
    assert (
        LocalGlobalAnalysis(clients=2).analyse(loaded, Scope(examples=50), silent).result["clients"]
        == found["clients"][:2]
    )


def test_local_against_global_goes_on_where_it_was_stopped(study: Path) -> None:
    loaded, look, messages = loaded_runs([study])[0], Scope(examples=40), list[str]()

    def stop(done: float, total: float, what: str) -> None:
        messages.append(what)
        if len(set(messages)) == 4:  # in the middle of the second client
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LocalGlobalAnalysis().analyse(loaded, look, stop)
    first, second = list(dict.fromkeys(name.partition(",")[0] for name in messages))
    messages.clear()
    LocalGlobalAnalysis().analyse(loaded, look, lambda done, total, what: messages.append(what))
    assert first not in (again := {name.partition(",")[0] for name in messages})
    assert second in again


def test_the_partition(study: Path) -> None:
    loaded = loaded_runs([study])[0]
    found = PartitionAnalysis().analyse(loaded, Scope(), silent).result
    assert found["clients"] == found["shown"] == 20
    assert [sum(row) for row in found["counts"]] == list(loaded.setup.fed.sizes())
    assert all(sum(map(bool, row)) <= 2 for row in found["counts"])


def test_an_unfinished_run_is_looked_at_where_it_stands(study: Path, tmp_path: Path) -> None:
    import shutil

    folder = shutil.copytree(loaded_runs([study])[0].folder, tmp_path / "run")
    record = json.loads((folder / "run.json").read_text())
    del record["end"]
    (folder / "run.json").write_text(json.dumps({**record, "status": "running"}))
    loaded = LoadedRun(folder)
    assert "is not finished: its model of round 3 is used" in loaded.unfinished
    assert torch.equal(
        loaded.model(None)[1].params, loaded_runs([study])[0].models["server"].params
    )
    shutil.rmtree(folder / "checkpoint")
    with pytest.raises(RunError, match="no checkpoint that can be read"):
        LoadedRun(folder).model(None)


def test_a_run_that_went_on_is_looked_at_anew(study: Path, tmp_path: Path) -> None:
    """What was found of its model in round 2 is not taken for the one it ends with."""
    folder, (same, other, _) = tmp_path / "run", loaded_runs([study])

    def stop(progress: Progress) -> None:
        if progress.round == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_one(
            same.experiment,
            ExecutionConfig(executor="in-process"),
            folder,
            Reporter(announce=lambda exp, place, total: stop),
        )

    def looks() -> list[Any]:
        """Losses at the model itself, each by another analysis."""
        loaded, look = LoadedRun(folder), Scope()
        surface = SurfaceAnalysis(points=3, span=0.5).analyse(loaded, look, silent)
        line = of_first(InterpolateAnalysis(str(other.folder), str(folder)), look)
        bent = CurvatureAnalysis(k=1).analyse(loaded, look, silent)
        by_hand = pytest.approx(loss_by_hand(loaded, loaded.model(None)[1].params), rel=1e-5)
        assert [
            surface.result["center"]["loss"],
            line.result["b"]["loss"],
            bent.result["loss"],
        ] == [by_hand] * 3
        return [surface, line, bent]

    assert all(found.fresh for found in looks())
    assert not any(found.fresh for found in looks())
    resume(folder)
    assert all(found.fresh for found in looks())


def test_a_damaged_model_is_reported(study: Path, tmp_path: Path) -> None:
    import shutil

    folder = shutil.copytree(loaded_runs([study])[0].folder, tmp_path / "run")
    whole = (folder / "final.safetensors").read_bytes()
    for content in (b"nonsense", whole[:-1] + bytes([whole[-1] ^ 1]), None):
        (folder / "final.safetensors").unlink()
        if content is not None:
            (folder / "final.safetensors").write_bytes(content)
        with pytest.raises(
            RunError, match=r"is damaged \(final.safetensors: .*`fedflat resume .*` writes it again"
        ):
            LoadedRun(folder).model(None)
        resume(folder)
        assert (folder / "final.safetensors").read_bytes() == whole


def test_the_analysis_store_refuses_damaged_results(tmp_path: Path) -> None:
    store, found = AnalysisStore(tmp_path / "analysis", "mine"), {"x": [1.0], "y": [1.0]}
    path = store.save("surface", {"a": 1}, found, 0.5)
    assert store.result("surface", {"a": 1}) == found
    assert store.result("surface", {"a": 2}) is None
    path.write_text(path.read_text().replace('"a": 1', '"a": 3'))
    assert store.result("surface", {"a": 1}) is None
    path.write_text("[")
    assert store.result("surface", {"a": 1}) is None
    store.save("surface", {"a": 1}, found, 0.5)
    assert AnalysisStore(tmp_path / "analysis", "another").result("surface", {"a": 1}) is None
    store.save("surface", {"a": 1}, {"x": {}, "y": [1.0]}, 0.5)
    assert store.result("surface", {"a": 1}) is None


def test_what_was_begun_is_resumed_only_if_it_looks_so(tmp_path: Path) -> None:
    store = AnalysisStore(tmp_path / "analysis", "mine")
    rows = [{"client": 3, "local": 1.0, "global": 2.0}]
    for found, expected in [
        (rows, rows),
        ("x", None),
        ([{"client": 3, "local": None, "global": 2.0}], None),
    ]:
        store.save_partial("local_global", {}, found)
        assert store.load_partial("local_global", {}) == expected


def test_numbers_that_are_not_finite_are_kept(tmp_path: Path) -> None:
    """Of a Hessian that is zero: the ratio of its eigenvalues. It ended in a traceback."""
    store = AnalysisStore(tmp_path / "analysis", "mine")
    store.save(
        "curvature", {}, {"loss": math.nan, "ratio": math.inf, "eigenvalues": [0.0, -math.inf]}, 0.5
    )
    assert store.result("curvature", {}) == {
        "loss": None,
        "ratio": math.inf,
        "eigenvalues": [0.0, -math.inf],
    }


def test_numbers_that_are_not_finite_are_reported() -> None:
    result = {
        "loss": None,
        "examples": 3,
        "of": 3,
        "lambda_1": 0.0,
        "ratio": math.inf,
        "trace": {"mean": None},
    }
    output = "loss nan on 3 of 3 examples, lambda_1 0, lambda_1/lambda_5 inf, trace nan ± nan"
    explained = " (± of the trace: standard error over random vectors)"
    assert CurvatureAnalysis.sentence(result, ACCURACY) == output + explained


@pytest.mark.parametrize(
    ("headline", "message"),
    [
        (ACCURACY, "accuracy 95.00 % clean, 76.00 % over all corruptions (drawn)"),
        (
            Headline("rmse", higher_is_better=False),
            "rmse 0.9500 clean, 0.7600 over all corruptions (drawn)",
        ),
    ],
)
def test_corruptions_are_reported_in_the_score_of_the_run(headline: Headline, message: str) -> None:
    result = {"clean": 0.95, "mean": 0.76, "source": "drawn"}
    assert CorruptionsAnalysis.sentence(result, headline) == message


def test_runs_of_a_study_that_have_not_begun_are_named(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(study, tmp_path / "study")
    shutil.rmtree(loaded_runs([folder])[0].folder)
    assert main(["analyse", str(folder), "--quiet"]) == 0
    assert (
        capsys.readouterr().err
        == f"1 of the {len(loaded_runs([study]))} runs in {folder} have not begun.\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["analyse", "{study}/nothing", "--curvature"], "holds neither a run"),
        (["analyse", "{one}", "--curvature", "--model", "swa"], "has no model 'swa', only server"),
        (
            ["analyse", "{one}", "--curvature", "--set", "trian"],
            "the set must be test, train, or client:K",
        ),
        (
            ["analyse", "{one}", "--curvature", "--set", "client:20"],
            "K from 0 to 19, found 'client:20'",
        ),
        (["analyse", "{one}", "--plane"], "a plane goes through three models, found 1"),
        (["analyse", "{one}", "--interpolate", "{one}", "{one}"], "both models are the same"),
        (["analyse", "{one}", "--interpolate", "{one}", "{study}"], "is not a run folder"),
        (["analyse", "{one}", "--corruptions"], "uint8"),
        (["analyse", "{one}", "--curvature", "--trace", "huch"], "hutchinson"),
        (["analyse", "{one}", "--surface", "--points", "4"], "odd"),
        (["report", "{study}/nothing"], "nothing"),
    ],
)
def test_bad_input_gets_a_sentence_and_status_2(
    words: list[str], message: str, study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"study": study, "one": loaded_runs([study])[0].folder}
    assert (
        main(
            [word.format(**places) for word in words]
            + (["--quiet"] if words[0] == "analyse" else [])
        )
        == 2
    )
    assert message in capsys.readouterr().err


def test_the_models_of_a_plane_are_looked_for_before_anything_is_worked_out(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = str(loaded_runs([study])[0].folder)
    assert (
        main(
            [
                "analyse",
                one,
                "--surface",
                "--points",
                "3",
                "--plane",
                one,
                one,
                f"{one}:swap",
                "--quiet",
            ]
        )
        == 2
    )
    output, messages = capsys.readouterr()
    assert output == ""
    assert "has no model 'swap'" in messages


def test_models_of_different_shapes(study: Path, tmp_path: Path) -> None:
    run("fedavg", out=tmp_path / "other", **{**QUICK, "model": "mlp(hidden=[5])"})
    runs = [str(one.folder) for one in loaded_runs([study])]
    with pytest.raises(SettingError, match="the models have different shapes"):
        of_first(InterpolateAnalysis(runs[0], str(tmp_path / "other")), Scope())


def test_one_model_by_its_text(study: Path) -> None:
    folder = loaded_runs([study])[2].folder
    loaded, name, model = one_model(f"{folder}:server")
    assert (loaded.folder, name) == (folder, "server")
    assert not torch.equal(model.params, one_model(str(folder))[2].params)


def test_the_command_line(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "analyse",
        str(study),
        "--curvature",
        "-k",
        "1",
        "--surface",
        "--points",
        "3",
        "--examples",
        "40",
    ]
    assert main([*words, "--local-global"]) == 0
    output = capsys.readouterr().out
    assert output.count("lambda_1 ") >= 3
    assert output.count("3 x 3 points") == 3
    assert main([*words, "--quiet"]) == 0
    assert capsys.readouterr().out.count("(computed before)") == 9
    assert main(["report", str(study), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "fedsam(rho=0.1) + ema(gamma=0.5)" in page
    assert (
        main(
            [
                "report",
                *(str(one.folder) for one in loaded_runs([study])),
                "--out",
                str(tmp_path / "b.html"),
            ]
        )
        == 0
    )
