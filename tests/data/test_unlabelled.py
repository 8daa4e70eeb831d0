"""Clients without labels: reading one is an error, and methods that need none work."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import fedflat as ff
from fedflat.data.scenes.classes import Ids
from fedflat.data.scenes.scenes import FrameFiles, Scene, Scenes, partition_scenes
from fedflat.data.sets.in_memory import clients_of
from fedflat.data.sets.other_examples import without_labels
from fedflat.errors import SettingError
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train

STREET = "street(clients=4, examples=3, tests=4, width=32, height=16)"
REFUSED = "The clients hold no labels here"


@pytest.mark.parametrize("on", ["digits(clients=5)", STREET])
def test_there_is_nothing_to_read(on: str) -> None:
    fed = ff.parse(f"unlabelled({on})", "data set").open(0)
    plain = ff.parse(on, "data set").open(0)
    data = pickle.loads(pickle.dumps(fed.data(1)))
    batch = data.batch(torch.arange(2), torch.float32)
    assert torch.equal(batch.inputs, plain.data(1).batch(torch.arange(2), torch.float32).inputs)
    for ask in (
        lambda: batch.targets[0],
        lambda: batch.labels.shape,
        lambda: len(batch.targets),
        lambda: data.targets,
        lambda: data.labels,
        lambda: data.examples.targets,
        lambda: data.examples.labels,
    ):
        with pytest.raises(SettingError, match=REFUSED):
            ask()
    assert len(data) == len(plain.data(1))
    assert fed.skew().examples == plain.skew().examples
    assert len(fed.pooled().data(0)) == sum(plain.sizes())
    with pytest.raises(SettingError, match=REFUSED):
        _ = fed.pooled().data(0).targets
    assert torch.equal(fed.test.targets, plain.test.targets)


def test_masks_in_files_are_not_opened(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.full((8, 12, 3), 90, np.uint8)).save(tmp_path / "image.png")
    scene = Scene(tmp_path / "image.png", tmp_path / "no such mask.png", "here")
    some = Scenes((scene, scene), Ids(tuple(range(256))), FrameFiles(8, 12), 3)
    data = without_labels(partition_scenes(some, [[0], [1]], {"test": some})).data(1)
    assert data.batch(torch.arange(1), torch.float32).inputs.shape == (1, 3, 8, 12)
    with pytest.raises(ff.DataError, match="no such mask"):
        some.batch(torch.arange(1), torch.float32)


def experiment(method: str, on: ff.DataSpec | str) -> Experiment:
    return ff.experiment(
        method, on, rounds=2, clients_per_round=2, local_epochs=1, batch_size=2, lr=0.1
    )


def test_what_clients_are_labelled_does_not_matter() -> None:
    """Bit for bit the same run, whatever the labels; where a method needs some, they matter."""
    rng = torch.Generator().manual_seed(0)
    inputs = [torch.randn(6, 4, generator=rng) for _ in range(3)]
    labels = [torch.arange(6) % 3, torch.arange(6).flip(0) % 3]
    tests = inputs[0], labels[0]
    ended = {
        (method, place): train(
            experiment(method, clients_of([(x, y) for x in inputs], test=tests, classes=3))
        )
        for place, y in enumerate(labels)
        for method in ("self_training(sure=0.2)", "fedavg()")
    }
    params = {key: result.model.params for key, result in ended.items() if result.model is not None}
    assert torch.equal(params["self_training(sure=0.2)", 0], params["self_training(sure=0.2)", 1])
    assert not torch.equal(params["fedavg()", 0], params["fedavg()", 1])


def test_a_method_that_learns_without_opens_its_clients_so() -> None:
    setup = prepare(experiment("self_training()", STREET))
    assert setup.fed.data(0).examples.unlabelled
    with pytest.raises(SettingError, match=REFUSED):
        _ = setup.fed.data(0).targets
    assert not prepare(experiment("fedavg()", STREET)).fed.data(0).examples.unlabelled


def test_a_method_that_needs_labels_is_refused() -> None:
    with pytest.raises(SettingError, match="run: the method learns from labels. " + REFUSED):
        prepare(experiment("fedavg()", f"unlabelled({STREET})"))
    with pytest.raises(SettingError, match=REFUSED):
        train(experiment("self_training() + mixup()", f"unlabelled({STREET})"))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(SettingError, match=r"unlabelled: on must be a data set, .* found 3"):
        ff.parse("unlabelled(3)", "data set")
    with pytest.raises(SettingError, match=r"regression\(\) has no classes"):
        prepare(experiment("self_training()", "diabetes(clients=4)"))
