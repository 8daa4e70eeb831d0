"""Recovered images: their distances, the pictures, and runs without any."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedflat as ff
from experiments.small import final, kill_when_stopped, rows, start, timeless
from experiments.stopping import CHECKPOINT
from fedflat.analysis import recovery
from fedflat.analysis.analysis import Scope
from fedflat.analysis.kinds.recovery import RecoveryAnalysis
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.analysis.recovery import _sheet
from fedflat.cli.main import main
from fedflat.errors import SettingError
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.state import last_state
from fedflat.report import collect
from fedflat.simulation.attacks.attack import ATTACK
from fedflat.simulation.attacks.feature_network import frechet, moments, train_feature_network
from report.written_runs import write_run

GAN = "gan(client=1, epochs=2, batch=16, z=5, width=4)"
RUN: dict[str, Any] = {
    "on": "digits(clients=20)",
    "rounds": 2,
    "model": "mlp(hidden=[4])",
    "clients_per_round": 20,
}


def silent(done: float, total: float, what: str) -> None:
    assert 0 <= done <= total


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that has hardly learnt anything tells images apart too."""
    monkeypatch.setattr(recovery, "STEPS", 10)
    monkeypatch.setattr(recovery, "MAX_GENERATED", 300)
    monkeypatch.setattr(recovery, "_NETWORKS", {})


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "attacked"
    ff.run("fedavg", **RUN, attack=GAN, out=folder, quiet=True)
    return folder


def test_what_was_recovered(attacked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subject = LoadedRun(attacked)
    found = RecoveryAnalysis().analyse(subject, Scope(), silent)
    result = found.result
    assert (result["client"], result["requests"], result["made"]) == (1, 2, 300)
    all_clients = subject.setup.fed.pooled().data(0)
    headline = train_feature_network(all_clients, (1, 8, 8), 10, steps=10)
    both = all_clients, subject.setup.fed.test
    real, test = (one.batch(torch.arange(len(one)), torch.float32).inputs for one in both)
    assert result["real"] == len(real)
    assert result["test"] == pytest.approx(
        frechet(moments(headline.of(real)), moments(headline.of(test))), rel=1e-4
    )
    assert min(result["distance"], result["untrained"]) > result["test"] >= 0
    assert main(["analyse", str(attacked), "--recovered", "--quiet"]) == 0
    output = capsys.readouterr().out
    assert "recovered in 2 rounds (test images: " in output
    assert "in place of an Inception network" in output
    assert "(computed before)" in output


def test_the_judge_does_not_know_who_holds_what() -> None:
    one, other = (
        ff.digits(ff.lda(alpha), clients=10).open(seed).pooled()
        for alpha, seed in ((0, 0), (100, 3))
    )
    both = [train_feature_network(fed.data(0), (1, 8, 8), 10, steps=3) for fed in (one, other)]
    images = one.test.batch(torch.arange(5), torch.float32).inputs
    assert torch.equal(*(headline.of(images) for headline in both))
    assert train_feature_network(one.data(0), (1, 8, 8), 10, steps=60).guess(images).shape == (5,)


def test_a_sheet_of_pictures() -> None:
    """Nine images of two pixels: eight and one, with a white pixel between them; the file is read
    by hand."""
    images = torch.arange(9.0).view(9, 1, 1, 1).expand(9, 1, 1, 2)
    file = b64decode(_sheet(images, torch.zeros(1, 1, 1, 1), torch.full((1, 1, 1, 1), 10.0)))
    width, height = (int.from_bytes(file[at : at + 4]) for at in (16, 20))
    assert (width, height) == (23, 3)
    length = int.from_bytes(file[33:37])
    pixels = np.frombuffer(zlib.decompress(file[41 : 41 + length]), np.uint8).reshape(3, 24)[:, 1:]
    shades = [round(25.5 * k) for k in range(9)]
    first = [level for k in range(8) for level in (shades[k], shades[k], 255)][:-1]
    assert pixels[0].tolist() == first
    assert pixels[1].tolist() == [255] * 23
    assert pixels[2].tolist() == [204, 204, *[255] * 21]


def test_it_is_shown_in_the_report(attacked: Path, tmp_path: Path) -> None:
    RecoveryAnalysis().analyse(LoadedRun(attacked), Scope(), silent)
    found = collect([attacked])
    [item] = found["recovery"]
    assert item["recovered"].startswith("iVBORw0KGgo")
    assert item["requests"] == 2
    assert not any("recovered" in output for output in found["missing"])
    [analysis] = (attacked / "analysis").glob("recovery-*.json")
    kept = analysis.read_text()
    analysis.write_text(kept.replace('"recovered": "iVBOR', '"recovered": "<svg>'))
    again = collect([attacked])
    assert not again["recovery"]
    assert any("images recovered from models" in output for output in again["missing"])
    analysis.write_text(kept)


@pytest.mark.parametrize(
    ("attack", "why"),
    [
        (
            None,
            r"no client recovers images in this run\. Run it with --attack 'gan\(client=0\)'",
        ),
        (
            "gan(client=7, epochs=1, width=4)",
            r"the attacking client 7 was not selected in 1 rounds\. Run longer",
        ),
    ],
)
def test_where_nothing_was_recovered(tmp_path: Path, attack: str | None, why: str) -> None:
    settings = {**RUN, "rounds": 1, "clients_per_round": 1, "cohorts": [[3]], "attack": attack}
    ff.run("fedavg", **settings, out=tmp_path / "run", quiet=True)
    with pytest.raises(SettingError, match=why):
        RecoveryAnalysis().analyse(LoadedRun(tmp_path / "run"), Scope(), silent)
    assert main(["analyse", str(tmp_path / "run"), "--recovered", "--quiet"]) == 2


def test_runs_without_an_attack_are_not_asked_for_it(tmp_path: Path) -> None:
    assert "recovered" not in json.dumps(collect([write_run(tmp_path / "run")])["missing"])


@pytest.mark.slow
def test_killed_and_resumed(tmp_path: Path) -> None:
    """A real process, killed while the attacker is at work: the generator goes on with the same
    bits."""
    words = (
        "run",
        "fedavg",
        "--on",
        RUN["on"],
        "--rounds",
        "12",
        "--model",
        RUN["model"],
        "--clients-per-round",
        "20",
        "--attack",
        GAN.replace("epochs=2", "epochs=20"),
        "--threads",
        "1",
        "--quiet",
        "--checkpoint-every",
        "0",
    )
    whole = start(*words, "--out", str(tmp_path / "whole"))
    assert whole.communicate()[1] == ""
    folder = tmp_path / "run"
    kill_when_stopped(start(*words, "--out", str(folder), stop_after=(CHECKPOINT, 4)))
    assert main(["resume", str(folder), "--quiet"]) == 0
    assert final(folder) == final(tmp_path / "whole")
    assert timeless(rows(folder)) == timeless(rows(tmp_path / "whole"))
    one, other = (
        last_state(at, read_record(at).identity).averages[ATTACK]
        for at in (folder, tmp_path / "whole")
    )
    assert all(torch.equal(one[name], other[name]) for name in other)
