"""``image_folder``: clients, the same bits as in memory, and a run that is killed and resumed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import fedflat as ff
from experiments.killing import newest
from experiments.small import kill_when_stopped, start
from experiments.stopping import LOCAL_TRAINING
from fedflat.data.files import pictures
from fedflat.errors import DataError, SettingError
from fedflat.experiments.run_folder.fingerprint import data_digest
from fedflat.registry.specs import parse

RUN: dict[str, Any] = {
    "model": "mlp(hidden=[8])",
    "rounds": 3,
    "clients_per_round": 2,
    "batch_size": 4,
    "local_epochs": 2,
    "lr": 0.05,
    "quiet": True,
}
FEW = 3 * 6 * 5 * 7
"""Bytes of seven pictures: two batches of four are more."""


def draw(
    folder: Path, count: int, rng: np.random.Generator, size: tuple[int, int] = (6, 5)
) -> list[np.ndarray]:
    folder.mkdir(parents=True)
    made = []
    for place in range(count):
        made.append(rng.integers(256, size=(*size, 3), dtype=np.uint8))
        Image.fromarray(made[-1]).save(folder / f"{place:03}.png")
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Fifteen cats and ten dogs; what is no picture is passed over."""
    rng = np.random.default_rng(0)
    draw(tmp_path / "pictures" / "cat", 15, rng)
    draw(tmp_path / "pictures" / "dog", 10, rng)
    (tmp_path / "pictures" / "cat" / "notes.txt").write_text("fluffy")
    (tmp_path / "pictures" / ".git").mkdir()
    return tmp_path / "pictures"


def pixels(path: Path) -> torch.Tensor:
    return torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1)


def test_the_folders_are_the_classes_and_every_fifth_is_for_testing(folder: Path) -> None:
    fed = ff.image_folder(str(folder), clients=4).open(0)
    assert (fed.population, fed.classes, fed.shape) == (4, 2, (3, 6, 5))
    assert sum(fed.sizes()) == 20
    test = fed.test.batch(torch.arange(5), torch.float64)
    assert test.targets.tolist() == [0, 0, 0, 1, 1]
    wanted = [
        folder / f"{name}.png" for name in ("cat/004", "cat/009", "cat/014", "dog/004", "dog/009")
    ]
    torch.testing.assert_close(test.inputs, torch.stack(list(map(pixels, wanted))).double() / 255)


def test_the_first_level_may_be_the_clients(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for client, kind, count in (
        ("ann", "cat", 6),
        ("bob", "cat", 1),
        ("bob", "dog", 5),
        ("eve", "eel", 2),
    ):
        draw(tmp_path / client / kind, count, rng)
    fed = ff.image_folder(str(tmp_path), ff.by_user()).open(0)
    assert [fed.data(client).labels.tolist() for client in range(3)] == [
        [0] * 5,
        [0] + [1] * 4,
        [2, 2],
    ]
    assert fed.test.labels.tolist() == [0, 1]


def test_train_and_test_may_be_folders(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for part, kind, count in (("train", "cat", 3), ("train", "dog", 2), ("test", "dog", 4)):
        draw(tmp_path / part / kind, count, rng)
    fed = ff.image_folder(str(tmp_path), clients=2).open(0)
    assert sum(fed.sizes()) == 5
    assert fed.test.labels.tolist() == [1] * 4


def test_test_images_may_be_in_another_folder(folder: Path, tmp_path: Path) -> None:
    draw(tmp_path / "others" / "dog", 3, np.random.default_rng(1))
    made = ff.image_folder(str(folder), test=str(tmp_path / "others"), clients=1)
    assert parse(repr(made), "data set") == made
    fed = made.open(0)
    assert fed.sizes() == [25]
    assert fed.test.labels.tolist() == [1] * 3


def test_classes_may_be_named(folder: Path) -> None:
    """A client that has no eel, with the numbers of the others."""
    made = ff.image_folder(str(folder), test=str(folder), classes=["dog", "eel", "cat"], clients=1)
    assert made.class_names() == ("dog", "eel", "cat")
    fed = made.open(0)
    assert fed.classes == 3
    assert sorted(fed.test.labels.tolist()) == [0] * 10 + [2] * 15
    with pytest.raises(DataError, match="has folders that are not in classes: 'cat'"):
        ff.image_folder(str(folder), classes=["dog", "eel"]).class_names()


def test_size_channels_and_text(folder: Path) -> None:
    text = f"image_folder('{folder}', lda(0.5), clients=4, size=[3, 4], channels=1, augment=True, memory=1000)"
    spec = parse(text, "data set")
    assert spec == parse(repr(spec), "data set")
    fed = spec.open(0)
    assert fed.shape == (1, 3, 4)
    with Image.open(folder / "cat" / "004.png") as image:
        small = np.array(image.convert("L").resize((4, 3), Image.Resampling.BILINEAR))
    np.testing.assert_allclose(
        fed.test.batch(torch.tensor([0]), torch.float64).inputs[0, 0], small / 255
    )
    assert fed.train.augments
    assert not fed.test.examples.augments


def in_memory(folder: Path) -> Any:
    """The same pictures as tensors, in the order in which they are dealt out."""
    files = sorted(folder.glob("*/*.png"))
    train, test = (
        [path for path in files if (int(path.stem) % 5 == 4) is last] for last in (False, True)
    )
    x, test_x = (torch.stack(list(map(pixels, some))) for some in (train, test))
    y, test_y = ([int(path.parent.name == "dog") for path in some] for some in (train, test))
    return ff.tensors(x, y, test_x, test_y, clients=4)


@pytest.mark.parametrize("executor", ["in-process", "stacked"])
def test_a_run_has_the_bits_of_one_in_memory(folder: Path, executor: str) -> None:
    found, wanted = (
        ff.run("fedsam(rho=0.1) + scaffold()", on=on, executor=executor, threads=1, **RUN)
        for on in (ff.image_folder(str(folder), clients=4, memory=FEW), in_memory(folder))
    )
    assert torch.equal(found.model.params, wanted.model.params)
    assert [row["scores"] if "scores" in row else row["loss"] for row in found.rows] == [
        row["scores"] if "scores" in row else row["loss"] for row in wanted.rows
    ]


@pytest.mark.slow
def test_worker_processes_read_by_themselves_and_have_the_same_bits(folder: Path) -> None:
    on = f"image_folder('{folder}', clients=4, memory={FEW}, augment=True)"
    found, wanted = (
        ff.run("feddyn", on=on, executor=executor, **RUN)
        for executor in (ff.Workers(1), ff.InProcess(1))
    )
    assert torch.equal(found.model.params, wanted.model.params)


def test_a_run_that_was_killed_goes_on_bit_for_bit(folder: Path, tmp_path: Path) -> None:
    on = f"image_folder('{folder}', clients=4, memory={FEW}, augment=True)"
    whole = ff.run("fedavg", on=on, executor="in-process", threads=1, **{**RUN, "rounds": 8})
    out = tmp_path / "out"
    words = (
        f"run fedavg --model {RUN['model']} --rounds 8 --clients-per-round 2 --batch-size 4 --local-epochs 2 --lr "
        "0.05 --executor in-process --threads 1 --checkpoint-every 0 --quiet"
    ).split()
    process = start(
        *words,
        "--out",
        str(out),
        "--on",
        on,
        start_new_session=True,
        stop_after=(LOCAL_TRAINING, 7),
    )
    kill_when_stopped(process)  # in the first of a round's two requests
    assert newest(out) == 3
    ff.resume(out, quiet=True)
    final = load_file(out / "final.safetensors")
    assert all(
        torch.equal(final[name], value) for name, value in whole.module().state_dict().items()
    )


def test_a_damaged_picture_ends_the_run_with_its_name(folder: Path) -> None:
    (folder / "cat" / "003.png").write_bytes((folder / "cat" / "003.png").read_bytes()[:60])
    with pytest.raises(DataError, match=r"cat/003\.png is damaged or was cut off"):
        ff.run("fedavg", on=ff.image_folder(str(folder), clients=4), executor="in-process", **RUN)


def test_other_pictures_are_other_data_wherever_they_are(folder: Path, tmp_path: Path) -> None:
    def digest(place: Path) -> str:
        return data_digest(ff.image_folder(str(place), clients=4).open(0))

    shutil.copytree(folder, tmp_path / "elsewhere")
    before = digest(folder)
    assert digest(tmp_path / "elsewhere") == before
    draw(folder / "owl", 5, np.random.default_rng(1))
    assert digest(folder) != before
    (tmp_path / "elsewhere" / "dog" / "001.png").rename(tmp_path / "elsewhere" / "dog" / "999.png")
    assert digest(tmp_path / "elsewhere") != before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": ""}, "the path of a folder is needed"),
        ({"test": ""}, "the path of a folder is needed"),
        ({"classes": "cat"}, r"classes must be a list such as \['cat', 'dog'\], found 'cat'"),
        ({"size": 32}, r"size must be \[height, width\], found 32"),
        ({"size": [0, 3]}, "a side of size must be a whole number of at least 1"),
        ({"channels": 2}, "channels must be 1, grey, or 3, colours, found 2"),
        ({"augment": "yes"}, "augment must be True or False"),
        ({"memory": -1}, "memory must be a whole number of at least 0"),
        ({"clients": 0}, "clients must be a whole number of at least 1"),
    ],
)
def test_wrong_settings_are_refused_at_once(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        ff.image_folder(**{"path": "pictures", **settings})


def test_folders_without_pictures_say_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match=r"nowhere cannot be read \(No such file"):
        ff.image_folder(str(tmp_path / "nowhere")).open(0)
    with pytest.raises(DataError, match="has no pictures to train on"):
        ff.image_folder(str(tmp_path)).open(0)
    draw(tmp_path / "cat", 3, np.random.default_rng(0))
    with pytest.raises(DataError, match="has no pictures to test on"):
        ff.image_folder(str(tmp_path), clients=1).open(0)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match=r"Install fedflat\[vision\]"):
        pictures.check_pillow()


def test_16_bits_a_channel_are_refused(folder: Path) -> None:
    """Pillow would cut all levels above 255 off."""
    Image.fromarray(np.full((4, 6), 40_000, np.uint16)).save(folder / "cat" / "003.png")
    fed = ff.image_folder(str(folder), clients=2, size=[6, 5]).open(0)
    with pytest.raises(DataError, match=r"cat/003\.png has 16 bits a channel, and 8 are needed"):
        fed.pooled().data(0).batch(torch.arange(fed.pooled().size(0)), torch.float32)
