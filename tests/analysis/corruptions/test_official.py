"""CIFAR-10-C and CIFAR-100-C from a miniature in the published layout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedflat as ff
from fedflat.analysis.corruptions.corruptions import KINDS, official
from fedflat.analysis.corruptions.evaluate import measure
from fedflat.cli import main
from fedflat.client.learner import Learner
from fedflat.data.examples import ClientData, Examples
from fedflat.data.federation import DataSpec
from fedflat.data.files.paths import set_data_dir
from fedflat.data.sets.cifar import FINE_TO_COARSE, write_cifar10
from fedflat.errors import DataError
from fedflat.report import collect

TEST = 10
"""Test images of the miniature; image i of the test set has the label i."""


def shade(kind: str, severity: int, place: int) -> int:
    """The red of an image of the miniature, all of one colour; no two are alike, green and blue are
    0."""
    return 50 * list(KINDS).index(kind) % 250 + 5 * severity + place % 5


def write_c(folder: Path, labels: np.ndarray, kinds: tuple[str, ...] = ("fog", "snow")) -> Path:
    """The published layout: severities one after the other, images as (32, 32, 3)."""
    folder.mkdir(parents=True)
    np.save(folder / "labels.npy", np.tile(labels, 5))
    for kind in kinds:
        images = np.zeros((5 * len(labels), 32, 32, 3), np.uint8)
        for at in range(len(images)):
            images[at, :, :, 0] = shade(kind, at // len(labels) + 1, at % len(labels))
        np.save(folder / f"{kind}.npy", images)
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A folder with CIFAR-10 of 60 images and its corruptions; nowhere else is looked first."""
    root = tmp_path / "data"
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, 3, 32, 32), np.uint8)
    write_cifar10(root / "cifar-10-batches-bin", images, np.arange(60, dtype=np.uint8) % 10)
    write_c(root / "CIFAR-10-C", np.arange(TEST))
    set_data_dir(root)
    yield root
    set_data_dir(None)


def cifar() -> DataSpec:
    return ff.cifar10(ff.iid(), clients=5)


class Red(nn.Module):
    """Says class 3 of an image whose mean red, before normalisation, is that of a given image, else
    class 0."""

    def __init__(self, red: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.red = red

    def forward(self, x: Tensor) -> Tensor:
        red = 255 * (x[:, 0].mean((1, 2)) * 0.2023 + 0.4914)
        scores = torch.zeros(len(x), 10)
        scores[:, 3] = torch.where((red - self.red).abs() < 0.5, 2.0, -1.0) * self.weight
        return scores


def test_severities_and_examples_are_where_they_were_published(data: Path) -> None:
    """Only image 3 of the kind and severity the model knows is called 3; image 0 is called 0 but
    where it knows it."""
    spec = cifar()
    test, published = spec.open(0).test, official(spec)
    assert published is not None
    assert published.images("fog", 2, test).shape == (TEST, 3, 32, 32)
    for kind in ("fog", "snow"):
        for severity in range(1, 6):
            part = ClientData(test.examples, torch.tensor([7, 3, 0]))
            found = published.images(kind, severity, part)
            assert found[:, 0, 5, 9].tolist() == [
                shade(kind, severity, place) for place in (7, 3, 0)
            ]
            assert not found[:, 1:].any()
    learner = Learner(lambda: Red(shade("snow", 4, 3)), (3, 32, 32), 10, seed=0)
    found = measure(learner, learner.initial(), test, kinds=["fog", "snow"], published=published)
    # Of ten images the model has image 0 right, and at severity 4 of snow image 3 too (8 has its
    # red, and is no 3).
    assert found["kinds"] == {"fog": [0.1] * 5, "snow": [0.1, 0.1, 0.1, 0.2, 0.1]}
    assert found["source"] == "official CIFAR-10-C"


def test_the_command_takes_them_and_says_so(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Official where they are at hand, drawn where they are not, and never taken for one
    another."""
    run = tmp_path / "run"
    ff.run("fedavg", on=cifar(), model="logistic", rounds=1, clients_per_round=2, out=run)
    words = [
        "analyse",
        str(run),
        "--corruptions",
        "fog",
        "snow",
        "--data-dir",
        str(data),
        "--quiet",
    ]
    assert main(words) == 0
    assert "(official CIFAR-10-C)" in capsys.readouterr().out
    assert main(words) == 0
    assert "(computed before)" in capsys.readouterr().out
    (data / "CIFAR-10-C").rename(tmp_path / "away")
    assert main(words) == 0
    assert "(drawn by fedflat)" in capsys.readouterr().out
    saved = [
        json.loads(path.read_text())
        for path in sorted((run / "analysis").glob("corruptions-*.json"))
    ]
    sources = {one["result"]["source"]: one["settings"]["images"] for one in saved}
    assert sources == {name: name for name in ("official CIFAR-10-C", "drawn by fedflat")}
    assert {one["source"] for one in collect([run])["corruptions"]} == set(sources)


def test_where_they_are_looked_for(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = official(cifar())
    assert found is not None
    assert found.folder == data / "CIFAR-10-C"
    assert official(ff.cifar10(ff.iid(), clients=5, split=0.5, pool=True)) is None
    assert official(ff.digits()) is None
    assert official(ff.cifar100()) is None
    set_data_dir(data / "CIFAR-10-C")
    assert official(cifar()) == found
    set_data_dir(None)
    monkeypatch.setenv("FEDFLAT_DATA", str(data))
    assert official(cifar()) == found


def test_superclasses(data: Path) -> None:
    """The files of CIFAR-100-C name classes; a model of the 20 superclasses is judged by those."""
    fine = np.array([0, 99, 50])
    write_c(data / "CIFAR-100-C", fine, ("fog",))
    coarse = torch.tensor([FINE_TO_COARSE[label] for label in fine])
    pixels = torch.zeros(3, 3, 32, 32, dtype=torch.uint8)
    for labels, y in (("fine", torch.from_numpy(fine)), ("coarse", coarse)):
        published = official(ff.cifar100(labels=labels))
        assert published is not None
        assert published.source == "official CIFAR-100-C"
        published.check(["fog"], ClientData(Examples(pixels, y, 100), torch.arange(3)))


def test_refusals(data: Path) -> None:
    folder, spec = data / "CIFAR-10-C", cifar()
    test, published = spec.open(0).test, official(spec)
    assert published is not None
    with pytest.raises(
        DataError, match=r"has no frost\.npy\. Choose from the existing kinds \(snow, fog\)"
    ):
        published.check(["fog", "frost"], test)
    sound = (folder / "fog.npy").read_bytes()
    for damage in (b"", b"junk", sound[:-1], sound[:100]):
        (folder / "fog.npy").write_bytes(damage)
        with pytest.raises(DataError, match=r"fog\.npy is damaged or not a \.npy file"):
            published.check(["fog"], test)
    np.save(folder / "fog.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(DataError, match=r"fog\.npy is damaged or not a \.npy file"):
        published.check(["fog"], test)
    np.save(folder / "fog.npy", np.zeros((50, 3, 32, 32), np.uint8))
    with pytest.raises(
        DataError, match=r"must have 50 images, \(32, 32, 3\) of uint8, found \(50, 3, 32, 32\)"
    ):
        published.check(["fog"], test)
    for labels in (
        np.arange(50) % 10 + 1,
        np.tile(np.arange(10)[::-1], 5),
        np.repeat(np.arange(10), 5),
        np.arange(5),
    ):
        np.save(folder / "labels.npy", labels)
        with pytest.raises(DataError, match="must have the labels of the test set in its order"):
            published.check(["snow"], test)
    for wrong in (np.zeros(50), np.zeros(49, int), np.zeros((50, 1), int), np.zeros(0, int)):
        np.save(folder / "labels.npy", wrong)
        with pytest.raises(
            DataError, match="must have whole numbers, once for each of 5 severities"
        ):
            published.check(["snow"], test)
