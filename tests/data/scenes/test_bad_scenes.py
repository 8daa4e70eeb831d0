"""Damaged folders of driving scenes: an error that names the file, never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.scenes import streets
from fedflat.cli.main import main
from fedflat.data.files.paths import set_data_dir
from fedflat.errors import DataError
from fedflat.experiments.run_folder.fingerprint import data_digest
from fedflat.registry.specs import parse

Harm = Callable[[Path, Path], object]
"""What is done to the first image and its mask."""


Made = tuple[Callable[[Path], object], str, str]
"""How a miniature is written, and where its first image and mask are."""
SETS: dict[str, Made] = {
    "cityscapes(clients=1, size=[6, 8], augment=False)": (
        lambda root: streets.cityscapes(root, {"aachen": 2, "bremen": 2}, {"ulm": 1}),
        "leftImg8bit/train/aachen/*",
        "gtFine/train/aachen/*",
    ),
    "idda(unseen='rainy', size=[6, 8])": (
        lambda root: streets.idda(root, 1, 2),
        "T01_CN_A/RGB/*",
        "T01_CN_A/Semantic/*",
    ),
    "crosscity(size=[6, 8])": (
        lambda root: streets.crosscity(root, 17, 1),
        "Rome/Images/Test/*",
        "Rome/Labels/Test/*",
    ),
    "gta5(test=1, size=[6, 8])": (lambda root: streets.gta5(root, 3), "images/*", "labels/*"),
    "mapillary(split='uniform', size=[6, 8])": (
        lambda root: streets.mapillary(root, {"Europe": 17}),
        "training/images/*",
        "training/v1.2/labels/*",
    ),
    "camvid(clients=1)": (
        lambda root: streets.camvid(root, {"0001TP": (1, 1), "0006R0": (3, 1)}),
        "images/0006R0_000000.jpg",
        "labels.png",
    ),
}


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:70])


def _deep(path: Path) -> None:
    Image.fromarray(np.zeros((6, 8), np.uint16)).save(path, format="png")


def _other_size(image: Path, mask: Path) -> None:
    whole = Image.open(mask)
    whole.crop((0, 0, whole.width, whole.height - 1)).save(mask)


def _unknown(image: Path, mask: Path) -> None:
    whole = Image.open(mask)
    pixels = np.asarray(whole).copy()
    pixels[:] = 77
    strange = Image.fromarray(pixels)
    if whole.mode == "P":
        strange.putpalette(whole.getpalette())
    strange.save(mask)


HARMS: dict[str, tuple[Harm, str]] = {
    "image cut": (lambda image, mask: _cut(image), "is damaged or was cut off"),
    "mask cut": (lambda image, mask: _cut(mask), "is damaged or was cut off"),
    "16-bit image": (lambda image, mask: _deep(image), "has 16 bits a channel, and 8 are needed"),
    "16-bit mask": (lambda image, mask: _deep(mask), "has 16 bits a channel, and 8 are needed"),
    "coloured mask": (
        lambda image, mask: Image.open(mask).convert("RGB").save(mask),
        "found the mode RGB",
    ),
    "another size": (_other_size, "do not belong together|must hold the 6 masks"),
    "unknown ids": (_unknown, "has the ids 77, which this data set does not know"),
    "no mask": (lambda image, mask: mask.unlink(), "have no mask|is not on this machine"),
    "no image behind a link": (
        lambda image, mask: (image.unlink(), image.symlink_to("nowhere")),
        "cannot be read|images are missing",
    ),
    "a folder for an image": (
        lambda image, mask: (image.unlink(), image.mkdir()),
        "a folder, not a file|are missing",
    ),
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("on", SETS)
def test_one_bad_file(on: str, harm: str, tmp_path: Path) -> None:
    """Reading all examples raises an error that names the wrong file and why; GTA5's masks may have
    other sizes."""
    make, images, masks = SETS[on]
    make(tmp_path)
    folder = tmp_path / on.partition("(")[0]
    image, mask = sorted(folder.glob(images))[0], sorted(folder.glob(masks))[0]
    spoil, sentence = HARMS[harm]
    spoil(image, mask)
    set_data_dir(tmp_path)
    if harm == "another size" and "gta5" in on:
        everything(on)
        return
    with pytest.raises(DataError, match=sentence) as wrong:
        everything(on)
    assert image.name in str(wrong.value) or mask.name in str(wrong.value)


def everything(on: str) -> None:
    """Read all there is, and what tells these data from others."""
    fed = parse(on, "data set").open(0)
    for data in (*map(fed.data, range(fed.population)), *fed.tests.values()):
        data.batch(torch.arange(len(data)), torch.float32)
    data_digest(fed)


@pytest.mark.parametrize(
    "on", ["cityscapes(clients=1)", "idda(unseen='rainy')", "crosscity()", "camvid()"]
)
def test_an_empty_folder_of_a_city(on: str, tmp_path: Path) -> None:
    make, images, _ = next(
        made for name, made in SETS.items() if name.partition("(")[0] == on.partition("(")[0]
    )
    make(tmp_path)
    folder = next((tmp_path / on.partition("(")[0]).glob(images)).parent
    for image in folder.iterdir():
        image.unlink()
    set_data_dir(tmp_path)
    with pytest.raises(
        DataError, match=f"{folder}.* has no images|images are missing; the first is {folder}"
    ):
        parse(on, "data set").open(0)


def test_a_run_ends_with_the_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where a thread or an evaluation came upon the file."""
    streets.cityscapes(tmp_path, {"aachen": 3}, {"ulm": 2})
    broken = sorted((tmp_path / "cityscapes" / "leftImg8bit" / "val" / "ulm").iterdir())[1]
    _cut(broken)
    on = "cityscapes(clients=1, size=[16, 16], augment=False)"
    quick = [
        "--rounds",
        "1",
        "--model",
        "small_unet(width=4)",
        "--batch-size",
        "2",
        "--threads",
        "1",
        "--quiet",
    ]
    words = [
        "run",
        "fedavg",
        "--on",
        on,
        *quick,
        "--data-dir",
        str(tmp_path),
        "--out",
        str(tmp_path / "run"),
    ]
    assert main([*words, "--clients-per-round", "1"]) == 2
    assert capsys.readouterr().err.startswith(f"fedflat: error: {broken} is damaged or was cut off")
