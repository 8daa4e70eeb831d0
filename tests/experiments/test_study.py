"""Several methods, several seeds: folders, names, and going on with a study."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import fedflat as ff
from experiments.small import experiment, final, rows, stop_at, timeless
from fedflat.errors import FedflatError, RunError, SettingError
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.experiments.run_folder.run_folder import DiskRunFolder
from fedflat.experiments.study import Reporter, folder_names, resume, run_many
from fedflat.server.client_selection import ClientSampler
from fedflat.version import __version__

SETTINGS: dict[str, Any] = {
    "on": "digits(lda(0), clients=20)",
    "rounds": 4,
    "clients_per_round": 2,
    "model": "logistic",
    "threads": 1,
}
METHODS = ["fedavg", "feddyn(alpha=0.1) + ema()"]


def test_sibling_folders(tmp_path: Path) -> None:
    results = ff.compare(METHODS, seeds=2, out=tmp_path / "study", **SETTINGS)
    names = [
        f"{method}/seed-{seed}"
        for method in ("01-fedavg", "02-feddyn-alpha=0.1-ema")
        for seed in (0, 1)
    ]
    assert (
        sorted(p.relative_to(tmp_path / "study").as_posix() for p in tmp_path.rglob("seed-*"))
        == names
    )
    plan = json.loads((tmp_path / "study" / "study.json").read_text())
    assert plan["fedflat"] == __version__
    assert [entry["folder"] for entry in plan["runs"]] == names
    for name, result in zip(names, results, strict=True):
        alone = ff.run(result.method, seed=result.seed, **SETTINGS)
        assert torch.equal(alone.model.params, result.model.params)
        assert timeless(rows(tmp_path / "study" / name)) == timeless(alone.rows)
        saved = json.loads((tmp_path / "study" / name / "run.json").read_text())
        assert (saved["experiment"]["method"], saved["experiment"]["seed"]) == (
            result.method,
            result.seed,
        )


def stop_in(run: int, round: int) -> Reporter:
    return Reporter(announce=lambda exp, place, total: stop_at(round if place == run else None))


def test_a_study_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    """In the second of four runs: one is done, one is half done, two were never begun."""
    whole = ff.compare(METHODS, seeds=2, out=tmp_path / "whole", **SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        ff.compare(METHODS, seeds=2, out=tmp_path / "cut", reporter=stop_in(2, 3), **SETTINGS)
    done = tmp_path / "cut" / "01-fedavg" / "seed-0"
    stamp = (done / "run.json").stat().st_mtime_ns
    assert not (tmp_path / "cut" / "02-feddyn-alpha=0.1-ema").exists()
    announced: list[tuple[str, int, int]] = []

    def announce(exp, place, total):
        announced.append((repr(exp.method), place, total))
        return lambda progress: None

    resumed = resume(tmp_path / "cut", reporter=Reporter(announce=announce))
    assert [place for _, place, _ in announced] == [2, 3, 4]
    assert {total for *_, total in announced} == {4}
    assert (done / "run.json").stat().st_mtime_ns == stamp
    assert [timeless(r.rows) for r in resumed] == [timeless(r.rows) for r in whole]
    for path in (tmp_path / "whole").rglob("final.safetensors"):
        assert final(tmp_path / "cut" / path.parent.relative_to(tmp_path / "whole")) == final(
            path.parent
        )


def test_a_run_that_died_in_its_cradle_does_not_stop_the_study(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        ff.compare(METHODS, out=tmp_path / "cut", reporter=stop_in(1, 2), **SETTINGS)
    cradle = tmp_path / "cut" / "02-feddyn-alpha=0.1-ema" / "seed-0"
    cradle.mkdir(parents=True)
    (cradle / "lock").touch()
    assert [result.status for result in resume(tmp_path / "cut")] == ["done", "done"]


def test_checkpoints_as_often_as_specified(tmp_path: Path) -> None:
    with pytest.raises(
        SettingError, match="checkpoint_every must be a number of at least 0, found -1"
    ):
        ff.compare(METHODS, out=tmp_path / "run", checkpoint_every=-1, **SETTINGS)
    with pytest.raises(SettingError, match="checkpoint_every"):
        ff.run("fedavg", out=tmp_path / "run", checkpoint_every=-1, **SETTINGS)
    assert not (tmp_path / "run").exists()
    with pytest.raises(KeyboardInterrupt):
        ff.run(
            "fedavg",
            out=tmp_path / "run",
            reporter=stop_in(1, 2),
            checkpoint_every=math.inf,
            **SETTINGS,
        )
    with pytest.raises(SettingError, match="checkpoint_every"):
        ff.resume(tmp_path / "run", checkpoint_every=math.nan)
    seen: list[int] = []

    def look(progress) -> None:
        seen.extend(set(Store(tmp_path / "run" / "checkpoint").rounds()) - set(seen))

    ff.resume(tmp_path / "run", reporter=Reporter(announce=lambda *_: look), checkpoint_every=0)
    assert {2, 3} <= set(seen)  # the first one after it went on, though no time has passed


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"methods": []}, "no method was given. Name at least one"),
        (
            {"methods": ["fedavg", "fedsam(rho=0.05)", "sam(rho=0.05)"]},
            r"sam\(rho=0.05\) was given twice",
        ),
        ({"seeds": 0}, "seeds must be a whole number of at least 1, found 0"),
        ({"seeds": [1, 2, 1]}, r"a list of different ones, at least one, found \[1, 2, 1\]"),
        ({"seeds": []}, "at least one, found"),
        ({"seeds": [-1]}, "seed must be a whole number of at least 0, found -1"),
        ({"methods": ["fedavg", "feddin"]}, "unknown method 'feddin'. Did you mean 'feddyn'"),
        ({"clients_per_round": 21}, "a round selects 21 clients, but there are only 20"),
        ({"device": "cuda:7x"}, "device"),
    ],
)
def test_refused_before_anything_is_written(
    tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    given = {"methods": ["fedavg"], "seeds": 2, **SETTINGS, **wrong}
    with pytest.raises(FedflatError, match=message):
        ff.compare(given.pop("methods"), out=tmp_path / "study", **given)
    assert not (tmp_path / "study").exists()


def test_one_wrong_run_stops_all_before_the_first(tmp_path: Path) -> None:
    """The second of them cannot be: nothing is begun."""
    good, bad = experiment(seed=0), experiment(seed=1, sampler=ClientSampler(clients=6))
    with pytest.raises(SettingError, match="a round selects 6 clients"):
        run_many([good, bad], ExecutionConfig(), tmp_path / "study")
    assert not (tmp_path / "study").exists()


def test_a_folder_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "thesis.tex").touch()
    with pytest.raises(RunError, match=r"not empty. --out names another"):
        ff.compare(METHODS, out=tmp_path / "study", **SETTINGS)
    (tmp_path / "study" / "study.json").touch()
    with pytest.raises(RunError, match=r"not empty. `fedflat resume .*study` continues it"):
        ff.compare(METHODS, out=tmp_path / "study", **SETTINGS)
    with pytest.raises(RunError, match="could not be written: Not a directory"):
        ff.compare(METHODS, out=tmp_path / "study" / "thesis.tex" / "x", **SETTINGS)


def test_nothing_to_go_on_with(tmp_path: Path) -> None:
    with pytest.raises(
        RunError,
        match=r"holds neither a run \(run.json\) nor a study \(study.json\). Check the path",
    ):
        resume(tmp_path)
    with pytest.raises(RunError, match="holds neither"):
        resume(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", json.dumps({"fedflat": __version__, "runs": [{}], "how": {}}), '{"runs": 3}'],
)
def test_a_damaged_study(tmp_path: Path, text: str) -> None:
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(RunError, match=r"study.json is damaged .* Name its runs one by one"):
        resume(tmp_path)


def test_another_version_is_noticed_before_its_words_are_read(tmp_path: Path) -> None:
    """It may know other methods and settings: these must not be the error."""
    strange = {"method": "fedfuture(1)", "shape": "round"}
    run = {"fedflat": "9.9.9", "status": "running", "experiment": strange, "how": {"quantum": True}}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(json.dumps(run))
    study = {
        "fedflat": "9.9.9",
        "runs": [{"folder": "a", "experiment": strange}],
        "how": {"quantum": True},
    }
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.json").write_text(json.dumps(study))
    for name in ("run", "study"):
        with pytest.raises(RunError, match=rf"made by fedflat 9.9.9, this is {__version__}"):
            resume(tmp_path / name)


def test_a_run_in_use_is_not_resumed(tmp_path: Path) -> None:
    exp = ff.experiment("fedavg", "digits(iid(), clients=5)", rounds=2)
    run_folder = DiskRunFolder.create(tmp_path / "run", exp.texts(), {"workers": 0})
    with pytest.raises(RunError, match="another process is working in"):
        resume(tmp_path / "run")
    run_folder.close()


def test_names_of_folders() -> None:
    exps = [
        experiment(method, seed=seed)
        for method in ("fedavg", "sam(rho=0.05) + ema()")
        for seed in (0, 11)
    ]
    assert folder_names(exps) == [
        "01-fedavg/seed-0",
        "01-fedavg/seed-11",
        "02-sam-rho=0.05-ema/seed-0",
        "02-sam-rho=0.05-ema/seed-11",
    ]
    text = "fedgloss(rho_s=0.05, rho_l=0.05, beta=10) + wima(window=3) + ema(gamma={})"
    long = [experiment(text.format(gamma)) for gamma in (0.5, 0.6)]
    one, other = folder_names(long)
    assert one != other
    assert len(one) < 80


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"workers": -1}, "workers must be a whole number of at least 0, found -1"),
        ({"threads": 0}, "threads must be a whole number of at least 1, found 0"),
        ({"device": "gpu"}, "device 'gpu' cannot be read. Write cpu, cuda, cuda:1 or mps"),
        ({"device": "cpu:x"}, "device 'cpu:x' cannot be read. Write cpu, cuda, cuda:1 or mps"),
    ],
)
def test_where_one_cannot(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        ExecutionConfig(**wrong)


def test_a_device_that_is_not_there() -> None:
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    for name in (name for name in there if not there[name]):
        with pytest.raises(SettingError, match=f"this machine has no device '{name}'. It has cpu"):
            ExecutionConfig(device=name)
