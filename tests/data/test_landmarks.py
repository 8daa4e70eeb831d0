"""Landmarks-User-160k in its published layout, in miniature."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fedflat import experiment, iid, landmarks
from fedflat.data.files.paths import set_data_dir
from fedflat.errors import DataError, SettingError
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_cost import remarks
from fedflat.registry.specs import parse

Image = pytest.importorskip("PIL.Image")
TRAIN = [("7", "0a1", 0), ("7", "0a2", 1), ("12", "0b3", 2), ("7", "1c4", 2), ("3", "fff", 1)]
TEST = [("0a9", 1), ("0b9", 0)]


def save(folder: Path, image: str, *, height: int = 40, width: int = 60) -> Path:
    path = folder / "train" / image[0] / image[1] / image[2] / f"{image}.jpg"
    path.parent.mkdir(parents=True, exist_ok=True)
    grey = 10 * sum(map(ord, image)) % 256
    Image.fromarray(np.full((height, width, 3), grey, np.uint8)).save(path)
    return path


def write(folder: Path, train=TRAIN, test=TEST) -> None:
    split = folder / "landmarks-user-160k"
    split.mkdir(parents=True, exist_ok=True)
    rows = [",".join(map(str, row)) for row in train]
    (split / "federated_train.csv").write_text("\n".join(["user_id,image_id,class", *rows]) + "\n")
    rows = [",".join(map(str, row)) for row in test]
    (split / "test.csv").write_text("\n".join(["image_id,class", *rows]) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "landmarks"
    write(root)
    for place, (_, image, _) in enumerate(TRAIN):
        save(root, image, height=40 + place, width=60 - place)
    for image, _ in TEST:
        save(root, image)
    set_data_dir(tmp_path)
    return root


def test_a_client_is_an_author(folder: Path) -> None:
    fed = landmarks(clients=3, side=16).open(0)
    assert (list(fed.sizes()), fed.classes, fed.shape) == ([3, 1, 1], 3, (3, 16, 16))
    assert [fed.data(k).labels.tolist() for k in range(3)] == [[0, 1, 2], [2], [1]]
    assert fed.test.labels.tolist() == [1, 0]
    assert fed.remark == ""
    batch = fed.data(0).batch(torch.arange(3), torch.float64)
    grey = 10 * sum(map(ord, "0a1")) % 256 / 255
    np.testing.assert_allclose(batch.inputs[0, 1], (grey - 0.456) / 0.224, atol=0.02)
    assert fed.train.augments
    assert not fed.test.examples.augments


def test_other_clients(folder: Path) -> None:
    """The seed selects authors; any partition redistributes the photographs of those chosen."""
    two = [sorted(landmarks(clients=2, side=8).open(seed).sizes()) for seed in range(20)]
    assert sorted(map(tuple, two))[0] == (1, 1)
    assert sorted(map(tuple, two))[-1] == (1, 3)
    fed = landmarks(iid(), clients=3, side=8).open(0)
    assert sorted(fed.sizes()) == [1, 2, 2]
    with pytest.raises(SettingError, match="4 clients need as many authors with photographs, fou"):
        landmarks(clients=4).open(0)
    text = "landmarks(iid(), clients=2, side=8)"
    assert repr(parse(text, "data set")) == text


def test_a_flat_folder_of_images(folder: Path) -> None:
    (folder / "images").mkdir()
    for path in sorted((folder / "train").rglob("*.jpg")):
        path.rename(folder / "images" / path.name)
    assert sum(landmarks(clients=3).open(0).sizes()) == 5


def test_rows_without_a_photograph(folder: Path) -> None:
    (folder / "train/f/f/f/fff.jpg").unlink()
    (folder / "train/0/a/2/0a2.jpg").unlink()
    (folder / "train/0/b/9/0b9.jpg").unlink()
    with pytest.raises(
        DataError, match=r"2 of 5 rows have no photograph; the first is '0a2', looked for at .*0a2"
    ):
        landmarks(clients=3).open(0)
    on = landmarks(clients=2, side=32, missing="skip")
    fed = on.open(0)
    # Author 3 has none left; classes stay those of the file.
    assert (list(fed.sizes()), fed.classes, len(fed.test)) == ([2, 1], 3, 1)
    setup = prepare(experiment("fedavg", on, rounds=1, clients_per_round=2, model="logistic"))
    assert remarks(setup) == [
        "rows without a photograph were left out: 2 for training and 1 for testing; 1 authors have "
        "no photograph and are no clients",
        "warning: no client trains on a class of the test set: 1 (1 test example)",
    ]


def test_no_photograph_at_all(folder: Path) -> None:
    for path in (folder / "train").rglob("*.jpg"):
        path.unlink()
    with pytest.raises(DataError, match="none of the photographs is in"):
        landmarks(clients=3, missing="skip").open(0)


@pytest.mark.parametrize(
    ("train", "test", "error"),
    [
        (TRAIN, [("0a9", 3)], r"test.csv has 1 classes that federated_train.csv has not.* 3"),
        ([("7", "0a1", 0), ("7", "0a2", 5)], [("0a9", 0)], r"4 are missing, the first of which i"),
        ([("7", "0a1", "x")], TEST, r"row 1 must have user_id, image_id, and class"),
        ([("7", "../../x", 0)], TEST, r"row 1 must have"),
        ([("7", "0a1", 0), ("", "0a2", 0)], TEST, r"row 2 .*image 0a2 has no author"),
        (TRAIN, [], r"test.csv has no row"),
    ],
)
def test_files_that_do_not_match(folder: Path, train, test, error: str) -> None:
    write(folder, train, test)
    with pytest.raises(DataError, match=error):
        landmarks(clients=1).open(0)


def test_a_missing_column(folder: Path) -> None:
    (folder / "landmarks-user-160k/federated_train.csv").write_text("user,image_id,class\n")
    with pytest.raises(DataError, match="the column user_id is missing"):
        landmarks(clients=1).open(0)


def test_refusals() -> None:
    with pytest.raises(DataError, match=r"landmarks is not on this machine.*Google Landmarks v2"):
        landmarks().open(0)
    with pytest.raises(SettingError, match="missing"):
        landmarks(missing="ignore")
