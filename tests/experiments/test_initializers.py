"""A run starts with the weights that its initializer names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import fedflat as ff
from experiments.small import stop_at
from fedflat.cli import main
from fedflat.experiments.results.results import Result
from fedflat.experiments.study import Reporter

SETTINGS: dict[str, Any] = {
    "on": "digits(lda(0), clients=20)",
    "model": "mlp(hidden=[8])",
    "rounds": 2,
    "clients_per_round": 3,
    "eval_every": 1,
    "threads": 1,
    "quiet": True,
}


def run(out: Path | None = None, **more: Any) -> Result:
    return ff.run("fedavg", out=out, **{**SETTINGS, **more})


def same(a: Result, b: Result) -> bool:
    assert a.model is not None
    assert b.model is not None
    return torch.equal(a.model.params, b.model.params)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended."""
    folder = tmp_path_factory.mktemp("before") / "run"
    run(folder, seed=5)
    return folder


def test_weights_of_a_file_are_those_of_a_module_that_was_given(before: Path) -> None:
    weights = str(before / "final.safetensors")
    module = ff.mlp([8]).build((1, 8, 8), 10)
    module.load_state_dict(load_file(weights))
    given = run(model=module)
    assert same(run(init=ff.from_weights(weights)), given)
    assert same(run(init=f"from_run({str(before)!r})"), given)
    assert not same(run(), given)


def test_fresh_goes_without_saying(tmp_path: Path) -> None:
    assert same(run(tmp_path / "run", init="fresh"), run())
    assert (
        json.loads((tmp_path / "run" / "run.json").read_text())["experiment"]["init"] == "fresh()"
    )


def test_trained_in_one_place_first(tmp_path: Path) -> None:
    output = "pretrained(digits(pathological(2)), rounds=3, lr=0.2, batch_size=32)"
    whole = run(tmp_path / "run", init=output)
    by_hand = ff.run(
        "centralised",
        out=tmp_path / "first",
        **{**SETTINGS, "on": "digits(pathological(2))", "rounds": 3},
        lr=0.2,
        batch_size=32,
    )
    assert by_hand.status == "done"
    assert same(whole, run(init=ff.from_run(str(tmp_path / "first"))))
    assert same(whole, run(init=output))  # without a folder
    assert same(whole, run(init=ff.from_run(str(tmp_path / "run" / "start"))))


@pytest.mark.parametrize("stop", [1, 2])
def test_stopped_in_what_came_first(stop: int, tmp_path: Path) -> None:
    output = "pretrained(digits(), rounds=3)"
    whole = run(tmp_path / "whole", init=output)
    with pytest.raises(KeyboardInterrupt):
        run(
            tmp_path / "cut",
            init=output,
            reporter=Reporter(announce=lambda exp, place, total: stop_at(stop)),
        )
    stood = json.loads((tmp_path / "cut" / "start" / "run.json").read_text())
    assert stood["status"] == "running"
    resumed = ff.resume(tmp_path / "cut", quiet=True)[0]
    assert same(resumed, whole)
    final = [
        load_file(tmp_path / name / "start" / "final.safetensors") for name in ("whole", "cut")
    ]
    assert all(torch.equal(final[0][name], final[1][name]) for name in final[0])


def test_what_does_not_fit_is_refused_or_left_fresh(before: Path, tmp_path: Path) -> None:
    weights = load_file(before / "final.safetensors")
    other = dict(weights)
    other["fc2.weight"], other["fc2.bias"] = torch.zeros(3, 8), torch.zeros(3)
    save_file(other, tmp_path / "other.safetensors")
    with pytest.raises(
        ff.SettingError, match=r"2 of its weights do not fit \(fc2.bias, fc2.weight\).*'matching'"
    ):
        run(init=ff.from_weights(str(tmp_path / "other.safetensors")))
    mixed = ff.mlp([8]).build((1, 8, 8), 10)
    exp = ff.experiment(
        "fedavg", **{k: v for k, v in SETTINGS.items() if k not in ("threads", "quiet")}
    )
    mixed.load_state_dict(exp.open_learner(exp.on.open(0), "cpu").module().state_dict())
    mixed.load_state_dict(
        {name: t for name, t in other.items() if name.startswith("fc1")}, strict=False
    )
    kept = run(init=ff.from_weights(str(tmp_path / "other.safetensors"), keep="matching"))
    assert same(kept, run(model=mixed))
    save_file({"else": torch.zeros(2)}, tmp_path / "none.safetensors")
    with pytest.raises(ff.SettingError, match="none of its weights fits"):
        run(init=ff.from_weights(str(tmp_path / "none.safetensors"), keep="matching"))


def test_a_file_that_has_changed_is_noticed(before: Path, tmp_path: Path) -> None:
    weights = load_file(before / "final.safetensors")
    file = tmp_path / "weights.safetensors"
    save_file(weights, file)
    run(tmp_path / "run", init=ff.from_weights(str(file)))
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    save_file({name: t + 1 for name, t in weights.items()}, file)
    for part in (tmp_path / "run" / "checkpoint").iterdir():
        part.unlink()
    record["status"] = "running"
    del record["end"]
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    with pytest.raises(ff.RunError, match="other weights to begin with"):
        ff.resume(tmp_path / "run", quiet=True)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("from_weights('nowhere.safetensors')", "there is no file nowhere.safetensors"),
        ("from_weights('pyproject.toml')", "neither a safetensors file nor a state dict"),
        ("from_run('nowhere')", "nowhere"),
        ("pretrained(3)", "on must be a data set"),
        ("fedavg()", "'fedavg' is a method, not an initializer"),
        ("pretrained(digits(), rounds=0)", "rounds"),
        ("from_run('x', keep='most')", "keep"),
    ],
)
def test_refused_in_a_sentence(
    message: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "run",
        "fedavg",
        "--rounds",
        "1",
        "--init",
        message,
        "--out",
        str(tmp_path / "run"),
        "--quiet",
    ]
    assert main(words) == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_run_that_has_not_ended(before: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", reporter=Reporter(announce=lambda exp, place, total: stop_at(1)))
    with pytest.raises(ff.SettingError, match="has not ended"):
        run(init=ff.from_run(str(tmp_path / "cut")))
