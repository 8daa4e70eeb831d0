"""Exported models: what they take and give, and modules that users bring."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import fedflat as ff
from fedflat.cli.main import main
from fedflat.errors import RunError, SettingError
from fedflat.experiments.predictions import RunModels
from fedflat.experiments.run_folder.export import ModelCard
from fedflat.experiments.run_folder.record import Origin, read_record

QUICK: dict[str, Any] = {"rounds": 2, "lr": 0.1, "threads": 1, "eval_every": 2}
NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.open, self.last = nn.LazyLinear(5), nn.Linear(5, 3)

    def forward(self, x):
        return self.last(torch.relu(self.open(x)))

number = 3
"""


class Net(nn.Module):
    """As in `NETS`."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.last = nn.LazyLinear(5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.open(x)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with an own module on a table, and on class folders."""
    home = tmp_path_factory.mktemp("own")
    (home / "nets.py").write_text(NETS)
    with (home / "wine.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["acid", "sugar", "quality", "hospital"])
        for k in range(60):
            writer.writerow(
                [10 + k % 7, 1000 * (k % 3) + k, ("bad", "fair", "good")[k % 3], "ABCD"[k % 4]]
            )
    on = ff.csv(str(home / "wine.csv"), target="quality", owner="hospital", standardize=True)
    ff.run(
        "fedavg + swa(start=0.0)", on=on, model=Net, clients_per_round=4, out=home / "wine", **QUICK
    )
    for name in ("cat", "dog"):
        (home / "pets" / name).mkdir(parents=True)
        for k in range(10):
            pixels = np.random.default_rng(k).integers(256, size=(8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(home / "pets" / name / f"{k}.png")
    on = f"image_folder({str(home / 'pets')!r}, clients=2)"
    ff.run(
        "fedavg",
        on=on,
        model="mlp(hidden=[4])",
        clients_per_round=2,
        out=home / "pets_run",
        **QUICK,
    )
    return home


def scale(place: Path) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the columns that clients train on, from the file."""
    table = np.genfromtxt(place / "wine.csv", delimiter=",", skip_header=1, usecols=(0, 1))
    train = table[[k for k in range(60) if (k // 4) % 5 != 4]]  # every fifth of each owner is kept
    return torch.tensor(train.mean(0)).float(), torch.tensor(train.std(0)).float()


RAW = torch.tensor([[11.0, 5.0], [13.0, 1100.0], [16.0, 2050.0]])


def test_a_program_takes_raw_columns_or_normalized_ones(place: Path, tmp_path: Path) -> None:
    mean, std = scale(place)
    net = ff.load(place / "wine", module=Net)
    with torch.no_grad():
        expected = net((RAW - mean) / std)
    for raw, given in ((True, RAW), (False, (RAW - mean) / std)):
        card = ff.export(place / "wine", tmp_path / "net.pt2", module=Net, raw=raw)
        found = torch.export.load(tmp_path / "net.pt2").module()(given)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        where = "inside" if raw else "outside"
        assert card.describe() == (
            "takes input float32[N, 2] (acid, sugar); gives logits of 3 classes (bad, fair, good); "
            f"normalization {where}: subtract mean, divide by std"
        )


def test_onnx_has_names_for_inputs_outputs_columns_and_classes(place: Path, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    ff.export(place / "wine", tmp_path / "net.onnx", module=Net, raw=True)
    session = runtime.InferenceSession(tmp_path / "net.onnx")
    mean, std = scale(place)
    (found,) = session.run(["logits"], {"input": RAW.numpy()})
    with torch.no_grad():
        expected = ff.load(place / "wine", module=Net)((RAW - mean) / std)
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-4, atol=1e-5)
    meta = session.get_modelmeta().custom_metadata_map
    assert json.loads(meta["class_names"]) == ["bad", "fair", "good"]
    assert json.loads(meta["column_names"]) == ["acid", "sugar"]
    assert meta["normalization"] == "inside: subtract mean, divide by std"
    torch.testing.assert_close(torch.tensor(json.loads(meta["mean"])), mean)
    torch.testing.assert_close(torch.tensor(json.loads(meta["std"])), std)


def test_raw_images_are_bytes(place: Path, tmp_path: Path) -> None:
    card = ff.export(place / "pets_run", tmp_path / "net.pt2", raw=True)
    assert card.describe().startswith("takes input uint8[N, 3, 8, 8]; gives logits of 2 classes")
    pixels = torch.arange(2 * 3 * 64, dtype=torch.uint8).view(2, 3, 8, 8)
    found = torch.export.load(tmp_path / "net.pt2").module()(pixels)
    with torch.no_grad():
        expected = ff.load(place / "pets_run")(pixels.float() / 255)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_state_dict_is_read_without_code(place: Path, tmp_path: Path) -> None:
    ff.export(place / "wine", tmp_path / "net.pt", module=Net, model="server")
    state = torch.load(tmp_path / "net.pt", weights_only=True)
    net = Net()
    net(torch.zeros(1, 2))
    net.load_state_dict(state)
    server = ff.load(place / "wine", module=Net, model="server")
    assert all(torch.equal(value, server.state_dict()[name]) for name, value in state.items())
    swa = ff.load(place / "wine", module=Net, model="swa")
    assert any(not torch.equal(value, swa.state_dict()[name]) for name, value in state.items())


def test_a_result_exports_and_predicts_when_it_ends_and_when_it_is_read_again(
    place: Path, tmp_path: Path
) -> None:
    on = ff.csv(str(place / "wine.csv"), target="quality", owner="hospital", standardize=True)
    given: dict[str, Any] = {"on": on, "model": Net, "clients_per_round": 4, **QUICK}
    results = [ff.run("fedavg", out=tmp_path / "run", **given)]
    results += ff.resume(tmp_path / "run", model=Net)
    cards = [one.export(tmp_path / f"{k}.pt", model="server") for k, one in enumerate(results)]
    states = [torch.load(tmp_path / f"{k}.pt", weights_only=True) for k in range(2)]
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    assert cards[0] == cards[1]
    rows = [one.predict(place / "wine.csv").rows() for one in results]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 60


def test_the_command_line_takes_a_module_by_file_and_name(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "nets_of_mine.py").write_text(NETS)
    words = ["export", str(place / "wine"), "--to", str(tmp_path / "net.safetensors")]
    for text in (f"{place / 'nets.py'}:Net", "nets_of_mine:Net"):
        (tmp_path / "net.safetensors").unlink(missing_ok=True)
        assert main([*words, "--module", text]) == 0
        assert (tmp_path / "net.safetensors").exists()
    capsys.readouterr()
    for text, message in (
        (f"{place / 'nets.py'}:Nat", "has no 'Nat'. Did you mean 'Net'?"),
        (f"{place / 'nets.py'}:number", "must be a module or make one, found 3"),
        (f"{place / 'nets.py'}", "must be FILE:NAME or PACKAGE:NAME"),
        ("no/where.py:Net", "does not exist"),
        (f"{place / 'nets.py'}:nn", "must be a module or make one"),
    ):
        assert main([*words, "--module", text]) == 2
        assert message in capsys.readouterr().err
    assert main(words) == 2
    assert "--module FILE:NAME on the command line" in capsys.readouterr().err


def test_what_a_file_cannot_hold_is_refused(place: Path, tmp_path: Path) -> None:
    for name in ("net.pt", "net.safetensors"):
        with pytest.raises(SettingError, match="holds weights only"):
            ff.export(place / "wine", tmp_path / name, module=Net, raw=True)
    with pytest.raises(SettingError, match=r"must end in \.safetensors, \.pt, \.pt2, \.onnx"):
        ff.export(place / "wine", tmp_path / "net.h5", module=Net)
    with pytest.raises(RunError, match="not the module that the run was begun with"):
        ff.export(place / "wine", tmp_path / "net.pt", module=nn.Linear(2, 3))
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_an_older_version_does_not_record_its_normalization(
    place: Path, tmp_path: Path
) -> None:
    record = read_record(place / "wine")
    assert Origin.from_json(record.origin.as_json()) == record.origin
    old = record.origin.as_json()
    del old["prepared"]
    card = ModelCard.of_record(replace(record, origin=Origin.from_json(old)))
    assert card.normalization() == "outside: not recorded"
    models = RunModels(lambda name: ff.load(place / "wine", module=Net), lambda: card)
    message = "does not record how its inputs are normalized"
    with pytest.raises(SettingError, match=message):
        models.export(tmp_path / "net.pt2", None, raw=True)
    with pytest.raises(SettingError, match=message):
        models.predict(place / "wine.csv", None)
