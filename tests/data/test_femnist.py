"""Writers as clients, from LEAF's JSON files in miniature."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedflat import femnist, lda
from fedflat.data.files.paths import set_data_dir
from fedflat.errors import DataError, SettingError


def user(images: np.ndarray, labels: list[int]) -> dict[str, Any]:
    return {"x": (images / 255).reshape(len(labels), -1).tolist(), "y": labels}


def write(path: Path, users: dict[str, dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "users": list(users),
        "num_samples": [len(one["y"]) for one in users.values()],
        "user_data": users,
    }
    path.write_text(json.dumps(document))


IMAGES = np.random.default_rng(0).integers(0, 256, (12, 28, 28))


@pytest.fixture
def leaf(tmp_path: Path) -> Path:
    folder = tmp_path / "femnist" / "data"
    train, test = folder / "train", folder / "test"
    two = {"f0000_14": user(IMAGES[:3], [0, 61, 5]), "f0001_41": user(IMAGES[3:5], [7, 7])}
    write(train / "all_data_0_niid_0_keep_0_train_9.json", two)
    write(
        train / "all_data_1_niid_0_keep_0_train_9.json",
        {"f0002_01": user(IMAGES[5:9], [1, 2, 3, 4])},
    )
    held = {
        name: user(IMAGES[k : k + 1], [k])
        for k, name in enumerate(("f0001_41", "f0002_01", "f0777_00"), start=9)
    }
    write(test / "all_data_0_niid_0_keep_0_test_9.json", held)
    set_data_dir(tmp_path)
    return folder


def test_a_client_is_a_writer(leaf: Path) -> None:
    fed = femnist(clients=3).open(0)
    assert (list(fed.sizes()), fed.classes, fed.shape) == ([3, 2, 4], 62, (1, 28, 28))
    assert fed.data(0).labels.tolist() == [0, 61, 5]
    batch = fed.data(2).batch(torch.arange(4), torch.float64)
    np.testing.assert_allclose(batch.inputs[:, 0], IMAGES[5:9] / 255, atol=1e-12)
    assert fed.test.labels.tolist() == [9, 10, 11]


def test_fewer_writers_and_other_partitions(leaf: Path) -> None:
    for seed in range(6):
        fed = femnist(clients=1).open(seed)
        owner = {
            3: [11],
            2: [9, 11],
            4: [10, 11],
        }  # its own test examples, and those of no client that trains
        assert fed.test.labels.tolist() == owner[fed.sizes()[0]]
    assert sorted(femnist(lda(1), clients=3).open(0).sizes()) == [3, 3, 3]
    assert repr(femnist()) == "femnist()"


def test_refused(leaf: Path) -> None:
    with pytest.raises(SettingError, match="femnist: 3500 clients need as many writers, found 3"):
        femnist().open(0)


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (
            {"x": [[0.5] * 784], "y": [62]},
            "labels of w must be whole numbers from 0 to 61, found 62",
        ),
        ({"x": [[0.5] * 783], "y": [1]}, "images of w must be lists of 784 numbers from 0 to 1"),
        ({"x": [[1.5] * 784], "y": [1]}, "images of w must be lists of 784 numbers from 0 to 1"),
        ({"x": [["a"] * 784], "y": [1]}, "images of w must be lists of 784 numbers from 0 to 1"),
        ({"x": [[0.5] * 784], "y": [1, 2]}, "user 'w' must have as many inputs as targets"),
        ({"x": [[0.5] * 784]}, "must have users and user_data as LEAF's files do"),
    ],
)
def test_wrong_files(leaf: Path, one: dict[str, Any], why: str) -> None:
    path = leaf / "train" / "all_data_2.json"
    path.write_text(json.dumps({"users": ["w"], "user_data": {"w": one}}))
    with pytest.raises(DataError) as caught:
        femnist(clients=3).open(0)
    assert why in str(caught.value)
    path.write_text('{"users": [')
    with pytest.raises(DataError, match="cannot be read as JSON"):
        femnist(clients=3).raw()
