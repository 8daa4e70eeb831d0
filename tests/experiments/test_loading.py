"""A run's model as a module, and as a file for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import fedflat as ff
from experiments.small import data, stop_at
from fedflat.cli import main
from fedflat.errors import RunError, SettingError
from fedflat.experiments.study import Reporter

SETTINGS: dict[str, Any] = {
    "rounds": 4,
    "clients_per_round": 2,
    "threads": 1,
    "eval_every": 1,
    "lr": 0.1,
}
DIGITS = "digits(iid(), clients=6)"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ff.Result]:
    folder = tmp_path_factory.mktemp("run") / "run"
    return folder, ff.run(
        "fedavg() + ema(gamma=0.5)", on=DIGITS, model="mlp(hidden=[8])", out=folder, **SETTINGS
    )


def accuracy(module: nn.Module, on: Any = DIGITS) -> float:
    """Worked out here."""
    fed = (ff.parse(on, "data set") if isinstance(on, str) else on).open(0)
    batch = fed.test.batch(torch.arange(len(fed.test)), torch.float32)
    with torch.no_grad():
        return float((module(batch.inputs).argmax(1) == batch.targets).double().mean())


def test_a_loaded_module_is_as_good_as_the_last_evaluation_says(run) -> None:
    folder, result = run
    scores = result.rows[-1]["models"]
    for name in ("server", "ema"):
        for module in (
            ff.load(folder, model=name),
            result.module(name),
            ff.resume(folder)[0].module(name),
        ):
            assert not module.training
            assert accuracy(module) == pytest.approx(scores[name]["accuracy"], abs=1e-12)
    assert accuracy(ff.load(folder)) == pytest.approx(result.rows[-1]["accuracy"], abs=1e-12)
    with pytest.raises(SettingError, match="has no model 'swa', only server, ema"):
        ff.load(folder, model="swa")


class Odd(nn.Module):
    """Weights that are tied and frozen, running statistics, a whole number, and a constant that is
    not kept."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)
        self.again = nn.Linear(4, 4)
        self.again.weight = self.first.weight
        self.last.bias.requires_grad_(False)
        self.register_buffer("two", torch.tensor(2))
        self.register_buffer("scale", torch.tensor(0.5), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(self.again(self.first(x)) * self.scale * self.two))


def test_tensors_have_the_modules_own_names(tmp_path: Path) -> None:
    """Whatever there is in it: ``load_state_dict`` takes the file as it is."""
    given = Odd()
    settings = {**SETTINGS, "drop_last": True, "batch_size": 3}
    result = ff.run("fedavg", on=data(), model=given, out=tmp_path / "run", **settings)
    module = Odd()
    module.load_state_dict(load_file(tmp_path / "run" / "final.safetensors"))
    assert accuracy(module.eval(), data()) == result.rows[-1]["accuracy"]
    assert module.first.weight is module.again.weight
    assert torch.equal(module.last.bias, given.last.bias)
    assert not torch.equal(module.norm.running_mean, given.norm.running_mean)
    assert (module.two.item(), module.two.dtype) == (2, torch.int64)
    with pytest.raises(RunError, match="the run's module was given in Python"):
        ff.load(tmp_path / "run")
    with pytest.raises(RunError, match="this is not the module that the run was begun with"):
        ff.load(tmp_path / "run", module=Odd())  # with other frozen weights
    loaded = ff.load(tmp_path / "run", module=given)
    assert all(
        torch.equal(value, module.state_dict()[name]) for name, value in loaded.state_dict().items()
    )


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    stop = Reporter(announce=lambda exp, place, total: stop_at(2))
    with pytest.raises(KeyboardInterrupt):
        ff.run(
            "fedavg", on=DIGITS, model="logistic", out=tmp_path / "run", reporter=stop, **SETTINGS
        )
    two = ff.run("fedavg", on=DIGITS, model="logistic", **{**SETTINGS, "rounds": 2})
    module = ff.load(tmp_path / "run")
    assert all(
        torch.equal(value, two.module().state_dict()[name])
        for name, value in module.state_dict().items()
    )


def test_exported_programs_do_the_same(
    run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = run
    module, some = ff.load(folder), torch.rand(7, 1, 8, 8)
    assert main(["export", str(folder), "--to", str(tmp_path / "model.pt2")]) == 0
    takes = (
        "takes input float32[N, 1, 8, 8]; gives logits of 10 classes (0, 1, 2, 3, 4, 5, 6, 7, ...)"
    )
    output = capsys.readouterr()
    assert output.out == f"{tmp_path / 'model.pt2'}\n"
    assert output.err == f"{takes}; normalization none\n"
    program = torch.export.load(tmp_path / "model.pt2").module()
    with torch.no_grad():
        assert torch.equal(program(some), module(some))
    assert (
        main(
            [
                "export",
                str(folder),
                "--to",
                str(tmp_path / "model.safetensors"),
                "--model",
                "server",
            ]
        )
        == 0
    )
    saved, server = (
        load_file(tmp_path / "model.safetensors"),
        ff.load(folder, model="server").state_dict(),
    )
    assert saved.keys() == server.keys()
    assert all(torch.equal(saved[name], server[name]) for name in saved)


def test_onnx_does_the_same(run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the runtime that others would use, for batches of any size, and without a word of torch's
    own."""
    runtime = pytest.importorskip("onnxruntime")
    folder, _ = run
    module, some = ff.load(folder), torch.rand(7, 1, 8, 8)
    assert main(["export", str(folder), "--to", str(tmp_path / "model.onnx")]) == 0
    output = capsys.readouterr()
    assert output.out == f"{tmp_path / 'model.onnx'}\n"
    assert output.err.count("\n") == 1
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: some.numpy()})
    with torch.no_grad():
        assert torch.allclose(torch.from_numpy(found), module(some), atol=1e-5)


def test_what_cannot_be_exported(
    run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    folder, _ = run
    wrong = {
        "model.txt": "must end in .safetensors, .pt, .pt2, .onnx",
        "no/where.pt2": "could not be written",
    }
    monkeypatch.setattr("fedflat.experiments.run_folder.export.find_spec", lambda name: None)
    wrong["model.onnx"] = (
        "ONNX needs onnx and onnxscript, not installed here. Install with: pip install"
    )
    for name, output in wrong.items():
        assert main(["export", str(folder), "--to", str(tmp_path / name)]) == 2
        assert output in capsys.readouterr().err
    assert main(["export", str(tmp_path), "--to", str(tmp_path / "model.pt2")]) == 2
    assert list(tmp_path.iterdir()) == []
