"""Tiny-ImageNet in its published layout, in miniature."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fedflat import pathological, tiny_imagenet
from fedflat.data.files.paths import set_data_dir
from fedflat.errors import DataError, SettingError
from fedflat.registry.specs import parse

Image = pytest.importorskip("PIL.Image")
KINDS = ("n02", "n01", "n10")
"""As wnids.txt lists them; labels follow the sorted ids."""


def save(path: Path, colour: int, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (64, 64, 3) if mode == "RGB" else (64, 64)
    Image.fromarray(np.full(shape, colour, np.uint8), mode=None).save(path, quality=95)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "tiny-imagenet-200"
    for k, kind in enumerate(sorted(KINDS)):
        for i in range(12):  # _10 comes after _9
            mode = "L" if i == 3 else "RGB"
            save(root / "train" / kind / "images" / f"{kind}_{i}.JPEG", 40 * k + 10 * i, mode)
        (root / "train" / kind / f"{kind}_boxes.txt").write_text("ignored")
    lines = []
    for i, kind in enumerate(("n10", "n01", "n02", "n02")):
        save(root / "val" / "images" / f"val_{i}.JPEG", 200 + i)
        lines.append(f"val_{i}.JPEG\t{kind}\t0\t0\t62\t57")
    (root / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    (root / "wnids.txt").write_text("\n".join(KINDS) + "\n")
    (root / "words.txt").write_text("n01\tgoldfish, carp\nn02\tnewt\nn99\tother\n")
    set_data_dir(tmp_path)
    return root


def test_the_published_layout(folder: Path) -> None:
    fed = tiny_imagenet(clients=3, augment=False).open(0)
    assert (fed.classes, fed.shape, fed.population) == (3, (3, 64, 64), 3)
    assert sum(fed.sizes()) == 36
    assert fed.test.labels.tolist() == [2, 0, 1, 1]
    assert tiny_imagenet().class_names() == ("goldfish", "newt", "n10")
    # In the order of their numbers, of one class after the other; grey files are colours too.
    pixels = fed.train.raw(torch.arange(36)).inputs.float().mean((1, 2, 3)).tolist()
    assert pixels == pytest.approx([40 * k + 10 * i for k in range(3) for i in range(12)], abs=1)


def test_preprocessing(folder: Path) -> None:
    """Grey of 40/255 with both constants; the border of FedDyn's crop is the mean colour."""
    place, grey = torch.tensor([4]), 40 / 255
    for name, mean, std in (
        ("imagenet", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ("fedfsa", (0.5,) * 3, (0.5,) * 3),
    ):
        fed = tiny_imagenet(clients=1, augment=False, normalise=name).open(0)
        found = fed.train.batch(place, torch.float64).inputs.mean((0, 2, 3))
        expected = [(grey - m) / s for m, s in zip(mean, std, strict=True)]
        np.testing.assert_allclose(found, expected, atol=0.01)
    augmented = tiny_imagenet(clients=1, augment="feddyn").open(0).train.augment
    assert (augmented.crop, augmented.border) == (0.5, (124, 116, 104))
    assert tiny_imagenet(clients=1).open(0).train.augment.crop == 1


def test_pooled_as_in_fedfsa(folder: Path) -> None:
    fed = tiny_imagenet(pathological(3), clients=2, split=0.7, pool=True).open(0)
    assert sum(fed.sizes()) + len(fed.test) == 40
    assert fed.held_out is not None
    text = "tiny_imagenet(pathological(3), clients=2, split=0.7, pool=True)"
    assert repr(parse(text, "data set")) == text


def test_images_in_the_folder_of_their_class(folder: Path) -> None:
    """Many rearrange ``val``; a part of the classes needs no lists."""
    for name in ("wnids.txt", "val/val_annotations.txt", "words.txt"):
        (folder / name).unlink()
    for i, kind in enumerate(("n10", "n01", "n02", "n02")):
        target = folder / "val" / kind
        target.mkdir(exist_ok=True)
        (folder / "val" / "images" / f"val_{i}.JPEG").rename(target / f"val_{i}.JPEG")
    (folder / "val" / "images").rmdir()
    fed = tiny_imagenet(clients=3).open(0)
    assert fed.test.labels.tolist() == [0, 1, 1, 2]
    assert tiny_imagenet().class_names() == ("n01", "n02", "n10")


@pytest.mark.parametrize(
    ("file", "content", "error"),
    [
        ("wnids.txt", "n01\nn02\n", r"lists 2 classes, and .* has folders of 3; 'n10'"),
        (
            "val/val_annotations.txt",
            "val_0.JPEG\tn77\n",
            r"line 1 must have a file and one of the 3 classes",
        ),
        ("val/val_annotations.txt", "val_9.JPEG\tn01\n", r"line 1 lists 'val_9.JPEG', which is no"),
        ("val/val_annotations.txt", "val_0.JPEG\tn01\n", r"no class for 3 of 4 images.*val_1"),
        ("val/val_annotations.txt", "nonsense", r"line 1 must have"),
    ],
)
def test_lists_that_do_not_match(folder: Path, file: str, content: str, error: str) -> None:
    (folder / file).write_text(content)
    with pytest.raises(DataError, match=error):
        tiny_imagenet(clients=3).open(0)


def test_a_class_without_images(folder: Path) -> None:
    for image in (folder / "train" / "n02" / "images").iterdir():
        image.unlink()
    with pytest.raises(DataError, match="n02 has no images"):
        tiny_imagenet(clients=3).open(0)


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"tiny_imagenet is not on this machine.*tiny-imagenet-200"):
        tiny_imagenet().open(0)
    with pytest.raises(SettingError, match="pool=True partitions the test set too"):
        tiny_imagenet(pool=True)
    with pytest.raises(SettingError, match="normalise"):
        tiny_imagenet(normalise="man")
