"""The data and the module of a run are known again, and others are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fedflat as ff
from data.miniature import write_cifar_files
from experiments.small import data, final, stop_at
from fedflat.cli import main
from fedflat.client.sharpness import Sam
from fedflat.composition.method import Method
from fedflat.data.files import paths as places
from fedflat.data.sets.in_memory import clients_from, clients_of
from fedflat.errors import DataError, RunError, SettingError
from fedflat.experiments.run_folder.fingerprint import data_digest, module_digest
from fedflat.experiments.study import Reporter


class Net(nn.Sequential):
    """With frozen weights, a setting that is an attribute, and a buffer."""

    def __init__(
        self,
        *,
        act: type[nn.Module] = nn.ReLU,
        drop: float = 0.1,
        scale: float = 1.0,
        frozen: int = 1,
    ):
        super().__init__(nn.Linear(4, 5), act(), nn.Dropout(drop), nn.Linear(5, 3))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(frozen)
            nn.init.normal_(self[0].weight.requires_grad_(False))
        self.scale = scale
        self.register_buffer("shift", torch.zeros(3))


def start(folder: Path, model: Any, *, at: int | None = 3, **more: Any) -> ff.Result:
    reporter = Reporter(announce=lambda exp, place, total: stop_at(at))
    return ff.run(
        "fedavg",
        on=data(),
        model=model,
        rounds=5,
        clients_per_round=2,
        threads=1,
        out=folder,
        reporter=reporter,
        **more,
    )


def test_a_fresh_instance_of_the_same_module_goes_on(tmp_path: Path) -> None:
    """Its trained weights are those of the checkpoint, whatever they are now."""
    torch.manual_seed(1)
    model = Net()
    start(tmp_path / "whole", model, at=None)
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path / "cut", model)
    ff.resume(tmp_path / "cut", model=Net(), on=data())
    assert final(tmp_path / "cut") == final(tmp_path / "whole")


@pytest.mark.parametrize(
    "other", [{"act": nn.Tanh}, {"drop": 0.2}, {"scale": 2.0}, {"frozen": 2}], ids=str
)
def test_another_module_is_refused(tmp_path: Path, other: dict[str, Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path / "cut", Net())
    with pytest.raises(RunError, match="this is not the module that the run was begun with"):
        ff.resume(tmp_path / "cut", model=Net(**other), on=data())
    assert module_digest(Net()) == module_digest(Net())


def test_other_weights_to_begin_with_are_refused_where_they_would_count(tmp_path: Path) -> None:
    import shutil

    model = Net()
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path / "cut", model)
    shutil.rmtree(tmp_path / "cut" / "checkpoint")
    with pytest.raises(RunError, match="must begin again, but this module has other weights"):
        ff.resume(tmp_path / "cut", model=Net(), on=data())
    assert ff.resume(tmp_path / "cut", model=model, on=data())[0].status == "done"


def test_other_data_are_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path / "cut", Net())
    fed = data().open(0)
    given = [(fed.train.inputs[part], fed.train.targets[part]) for part in fed.parts]
    given[1] = (given[1][0] + 1e-3, given[1][1])
    with pytest.raises(RunError, match="these are not the data that the run was begun with"):
        ff.resume(tmp_path / "cut", model=Net(), on=clients_of(given, test=given[2], classes=3))


def _make(client: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((4, 3), float(client)), torch.arange(4) % 2


def _make_another(client: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((4, 3), client + 0.5), torch.arange(4) % 2


def test_digests_of_data() -> None:
    test = (torch.zeros(5, 3), torch.arange(5) % 2)
    one, same, other = (
        data_digest(clients_from(make, 10**6, test, 2).open(0))
        for make in (_make, _make, _make_another)
    )
    assert one == same != other
    digits = [ff.digits(ff.lda(0.1), clients=9).open(seed) for seed in (0, 0, 1)]
    assert data_digest(digits[0]) == data_digest(digits[1]) != data_digest(digits[2])
    x = torch.rand(20, 3)
    fed = ff.tensors(x, torch.arange(20) % 2, x, torch.arange(20) % 2, clients=2).open(0)
    before = data_digest(fed)
    fed.train.inputs[3, 1] += 1
    assert data_digest(fed) != before


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No data but those of the test."""
    monkeypatch.setattr(places, "SYSTEM", tmp_path / "system")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDFLAT_DATA", raising=False)
    yield
    places.set_data_dir(None)


def test_the_folder_of_data_is_remembered(
    tmp_path: Path, nowhere, capsys: pytest.CaptureFixture[str]
) -> None:
    """Going on needs no --data-dir; other images elsewhere are refused."""
    for name, seed in (("mine", 1), ("others", 2)):
        write_cifar_files(tmp_path / name / "cifar-10-batches-bin", "cifar10", seed)
    places.set_data_dir(tmp_path / "mine")
    settings: dict[str, Any] = {
        "on": "cifar10(iid(), clients=2)",
        "model": "logistic",
        "rounds": 3,
        "clients_per_round": 1,
        "threads": 1,
    }
    stop = Reporter(announce=lambda exp, place, total: stop_at(1))
    for name in ("one", "two"):
        with pytest.raises(KeyboardInterrupt):
            ff.run("fedavg", out=tmp_path / name, reporter=stop, **settings)
    places.set_data_dir(None)
    assert main(["resume", str(tmp_path / "one"), "--quiet"]) == 0
    assert main(["analyse", str(tmp_path / "one"), "--quiet"]) == 0
    (tmp_path / "mine").rename(tmp_path / "gone")
    assert main(["resume", str(tmp_path / "two"), "--quiet"]) == 2
    assert "cifar10 is not on this machine" in capsys.readouterr().err
    places.set_data_dir(tmp_path / "others")
    assert main(["resume", str(tmp_path / "two"), "--quiet"]) == 2
    assert (
        f"not the data that the run was begun with. Give the same ones, which were found in {tmp_path / 'mine'}"
        in (capsys.readouterr().err)
    )
    assert main(["analyse", str(tmp_path / "one"), "--curvature", "--quiet"]) == 2
    places.set_data_dir(tmp_path / "gone")
    assert main(["resume", str(tmp_path / "two"), "--quiet"]) == 0


def test_a_folder_of_data_that_is_not_there(tmp_path: Path, nowhere) -> None:
    places.set_data_dir(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"nothing is not there. Check --data-dir"):
        ff.run(
            "fedavg",
            on="digits(iid(), clients=2)",
            rounds=1,
            clients_per_round=1,
            out=tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()


def test_a_method_made_by_hand_needs_no_folder(tmp_path: Path) -> None:
    mine = Method(client=(Sam(0.1),))
    settings: dict[str, Any] = {
        "on": data(),
        "rounds": 1,
        "clients_per_round": 1,
        "model": "logistic",
    }
    assert ff.run(mine, **settings).status == "done"
    for begin in (ff.run, lambda method, **more: ff.compare([method], **more)):
        with pytest.raises(
            SettingError, match=r"was made by hand, .* Register it with @fedflat.method"
        ):
            begin(mine, out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_what_run_json_says_of_them(tmp_path: Path) -> None:
    start(tmp_path / "run", Net(), at=None)
    origin = json.loads((tmp_path / "run" / "run.json").read_text())["origin"]
    assert (origin["shape"], origin["classes"], origin["place"]) == ([4], 3, None)
    assert {"data", "module", "start"} < origin.keys()
