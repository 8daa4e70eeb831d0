"""Accuracy under corruptions: right, resumable, and refused where it makes no sense."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedflat as ff
from analysis.corruptions.images import natural
from fedflat.analysis.corruptions import evaluate
from fedflat.analysis.corruptions.corruptions import KINDS, corrupt
from fedflat.analysis.corruptions.evaluate import corrupt_all, evaluate_corruptions, measure, result
from fedflat.client.learner import Learner
from fedflat.core.seeds import numpy_generator
from fedflat.data.examples import ClientData, Examples
from fedflat.errors import SettingError
from fedflat.registry.specs import parse

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)


def images(count: int = 30, channels: int = 3) -> ClientData:
    x = torch.from_numpy(natural(count + 5, channels, side=16))
    y = torch.arange(count + 5) % 4
    norm = (MEAN, STD) if channels == 3 else ((), ())
    return ClientData(Examples(x, y, 4, *norm), torch.arange(count + 4, 4, -1))


def network(channels: int = 3) -> Learner:
    return Learner(ff.cnn(), (channels, 16, 16), 4, seed=0)


def test_each_accuracy_is_that_of_the_corrupted_images() -> None:
    learner, data = network(), images()
    found = measure(
        learner, learner.initial(), data, kinds=["fog", "shot_noise"], severities=[2, 5], seed=7
    )
    x = natural(35, side=16)[data.index.numpy()]
    module = learner.module().eval()

    def share(pixels: np.ndarray) -> float:
        mean, std = (torch.tensor(part).view(1, 3, 1, 1) for part in (MEAN, STD))
        with torch.no_grad():
            output = module((torch.from_numpy(pixels) / 255 - mean) / std)
        return float((output.argmax(1) == data.labels).double().mean())

    expected = {
        kind: [
            share(corrupt(x, kind, severity, numpy_generator(7, f"corruption {kind}", 0)))
            for severity in (2, 5)
        ]
        for kind in ("fog", "shot_noise")
    }
    assert found["kinds"] == expected
    assert found["clean"] == pytest.approx(share(x), abs=1e-12)
    assert found["mean"] == pytest.approx(sum(map(sum, expected.values())) / 4, abs=1e-12)
    assert json.loads(json.dumps(found)) == found


class Light(nn.Module):
    """Says 1 if an image is lighter than a number, else 0."""

    def __init__(self) -> None:
        super().__init__()
        self.threshold = nn.Parameter(torch.tensor([0.55]))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.threshold.expand(len(x)), x.mean((1, 2, 3))], dim=1)


def test_a_model_whose_accuracy_is_known() -> None:
    """Grey of 0.5, called dark: brightness adds 0.05, 0.1, ...; from the second on it is called
    light."""
    x = torch.full((8, 1, 6, 6), 127, dtype=torch.uint8)
    data = ClientData(Examples(x, torch.zeros(8, dtype=torch.long), 2), torch.arange(8))
    learner = Learner(Light, (1, 6, 6), 2, seed=0)
    found = measure(learner, learner.initial(), data, kinds=["brightness"])
    kinds = {"brightness": [1.0, 0.0, 0.0, 0.0, 0.0]}
    assert found == {"clean": 1.0, "kinds": kinds, "mean": 0.2, "source": "drawn by fedflat"}


class Lightness(nn.Module):
    """Says how light an image is, a number for each."""

    def __init__(self) -> None:
        super().__init__()
        self.off = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((1, 2, 3))[:, None] + self.off


def test_numbers_are_judged_by_their_error() -> None:
    """Grey of 0.5 whose lightness is asked for: brightness adds c, so the root of the mean squared
    error is c."""
    x = torch.full((8, 1, 6, 6), 127, dtype=torch.uint8)
    data = ClientData(Examples(x, torch.full((8,), 127 / 255), 1), torch.arange(8))
    learner = Learner(Lightness, (1, 6, 6), 1, seed=0, task=parse("regression", "task"))
    found = measure(learner, learner.initial(), data, kinds=["brightness"], severities=[1, 3])
    added = [
        float(corrupt(x.numpy(), "brightness", s, numpy_generator(0, "", 0)).mean() - 127) / 255
        for s in (1, 3)
    ]
    assert found["clean"] == pytest.approx(0, abs=1e-6)
    assert found["kinds"]["brightness"] == pytest.approx(added, rel=1e-4)
    assert added[1] > added[0] > 0.02


def test_stopped_and_resumed() -> None:
    learner, data = network(), images(12)
    model = learner.initial()
    kinds = ["snow", "gaussian_noise", "motion_blur"]
    messages: list[tuple[int, int, str]] = []
    whole = dict(
        evaluate_corruptions(
            learner, model, data, kinds=kinds, on_progress=lambda *message: messages.append(message)
        )
    )
    assert list(whole) == ["clean", *kinds]
    assert messages[0] == (1, 16, "clean")
    assert messages[1:] == [
        (2 + 5 * i + j, 16, kind) for i, kind in enumerate(kinds) for j in range(5)
    ]
    values = evaluate_corruptions(learner, model, data, kinds=kinds)
    found = dict([next(values), next(values)])
    assert list(found) == ["clean", "snow"]
    learner.flat.load(torch.zeros(learner.flat.layout.dim))
    found |= evaluate_corruptions(learner, model, data, kinds=kinds, known=found)
    assert found == whole
    assert result(found) == result(whole)


def test_chunks_do_not_share_their_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "CHUNK", 4)
    x = np.repeat(natural(1), 10, axis=0)
    found = corrupt_all(x, "gaussian_noise", 3, 0)
    assert found.shape == x.shape
    assert len({image.tobytes() for image in found}) == 10
    assert np.array_equal(found[:4], corrupt_all(x[:4], "gaussian_noise", 3, 0))
    assert not np.array_equal(found, corrupt_all(x, "gaussian_noise", 3, 1))


def test_all_that_the_images_can_have() -> None:
    learner = network(1)
    assert set(
        dict(evaluate_corruptions(learner, learner.initial(), images(4, 1), severities=[1]))
    ) == {
        "clean",
        *KINDS,
    } - {"saturate"}


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """All before the first image is touched."""
    learner, data = network(), images(4)
    model = learner.initial()
    with pytest.raises(SettingError, match=r"unknown corruption 'foggy'\. Did you mean 'fog'"):
        evaluate_corruptions(learner, model, data, kinds=["foggy"])
    with pytest.raises(
        SettingError, match="severity must be a whole number of at least 1 and at most 5, found 6"
    ):
        evaluate_corruptions(learner, model, data, severities=[1, 6])
    with pytest.raises(SettingError, match="no kind or no severity"):
        evaluate_corruptions(learner, model, data, kinds=[])
    with pytest.raises(SettingError, match="saturate needs colour images, and these are grey"):
        evaluate_corruptions(learner, model, images(4, 1), kinds=["saturate"])
    for x in (
        torch.rand(4, 3, 8, 8),
        torch.zeros(4, 9, dtype=torch.uint8),
        torch.zeros(4, 2, 8, 8, dtype=torch.uint8),
    ):
        wrong = ClientData(Examples(x, torch.arange(4), 4), torch.arange(4))
        with pytest.raises(
            SettingError,
            match="the data must be images stored as uint8 with 1 or 3 channels, found",
        ):
            evaluate_corruptions(learner, model, wrong)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(SettingError, match="jpeg_compression needs Pillow"):
        evaluate_corruptions(learner, model, data)
    assert dict(evaluate_corruptions(learner, model, data, kinds=["fog"], severities=[1]))


def test_a_model_without_classes() -> None:
    learner = Learner(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(768, 1)), (3, 16, 16), 1, seed=0, loss=_square
    )
    with pytest.raises(SettingError, match="the run has no accuracy, since it has its own loss"):
        measure(learner, learner.initial(), images(4), kinds=["fog"])


def _square(output: Tensor, y: Tensor) -> Tensor:
    return (output[:, 0] - y).pow(2).mean()
