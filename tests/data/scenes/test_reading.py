"""One scene from its two files, and all errors in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.scenes.streets import CITY_IDS, mask, photo
from fedflat.data.scenes.classes import CITYSCAPES_IDS, IDDA_IDS, LISTS, MAPILLARY_IDS, Ids
from fedflat.data.scenes.scenes import FrameFiles, read_scene
from fedflat.errors import DataError

IDS = Ids.of(CITYSCAPES_IDS, [*range(35), 255], "cityscapes")
AS_IT_IS = FrameFiles(6, 8)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    photo(tmp_path / "image.png", 0)
    mask(tmp_path / "mask.png", 0, CITY_IDS)
    return tmp_path / "image.png", tmp_path / "mask.png"


def test_a_scene_as_it_is(files: tuple[Path, Path]) -> None:
    x, y = read_scene(*files, IDS, AS_IT_IS)
    assert np.array_equal(x.numpy(), np.asarray(Image.open(files[0])).transpose(2, 0, 1))
    train_id = {7: 0, 8: 1, 11: 2, 26: 13, 23: 10, 0: 255, 33: 18}
    expected = [[train_id[int(i)] for i in row] for row in np.asarray(Image.open(files[1]))]
    assert y.tolist() == expected


def test_without_a_mask_every_pixel_is_ignored(files: tuple[Path, Path]) -> None:
    _, y = read_scene(files[0], None, IDS, AS_IT_IS)
    assert (y == 255).all()


def test_another_size(files: tuple[Path, Path]) -> None:
    x, y = read_scene(*files, IDS, FrameFiles(12, 16))
    assert x.shape == (3, 12, 16)
    assert np.array_equal(y.numpy()[::2, ::2], read_scene(*files, IDS, AS_IT_IS)[1].numpy())


def test_a_shape_that_is_kept(files: tuple[Path, Path]) -> None:
    """At the same width, a lower frame cuts rows away above and below, a higher one adds some."""
    _, whole = read_scene(*files, IDS, AS_IT_IS)
    _, low = read_scene(*files, IDS, FrameFiles(4, 8, keep=True))
    assert low.tolist() == whole[1:5].tolist()
    x, high = read_scene(*files, IDS, FrameFiles(10, 8, keep=True))
    assert high[2:8].tolist() == whole.tolist()
    assert (high[:2] == 255).all()
    assert (high[8:] == 255).all()
    assert not x[:, :2].any()


def test_a_palette_of_colours_and_grey_images_are_colours(
    tmp_path: Path, files: tuple[Path, Path]
) -> None:
    colours = Image.open(files[0]).quantize(16)
    colours.save(tmp_path / "few.png")
    x, _ = read_scene(tmp_path / "few.png", None, IDS, AS_IT_IS)
    assert np.array_equal(x.numpy(), np.asarray(colours.convert("RGB")).transpose(2, 0, 1))
    Image.open(files[0]).convert("L").save(tmp_path / "grey.png")
    assert read_scene(tmp_path / "grey.png", None, IDS, AS_IT_IS)[0].shape == (3, 6, 8)


def test_a_mask_of_another_size(tmp_path: Path, files: tuple[Path, Path]) -> None:
    mask(tmp_path / "mask.png", 0, CITY_IDS, (5, 8))
    with pytest.raises(DataError, match=r"mask.png is 8x5, but its image image.png is 8x6"):
        read_scene(*files, IDS, AS_IT_IS)
    loose = Ids(IDS.table, same_size=False)
    assert read_scene(*files, loose, AS_IT_IS)[1].shape == (6, 8)


def test_unknown_ids(tmp_path: Path, files: tuple[Path, Path]) -> None:
    mask(tmp_path / "mask.png", 0, [7, 90, 40])
    with pytest.raises(
        DataError, match=r"mask.png has the ids 40, 90, which this data set does not know"
    ):
        read_scene(*files, IDS, AS_IT_IS)


def test_masks_with_colours_or_palettes(tmp_path: Path, files: tuple[Path, Path]) -> None:
    photo(tmp_path / "mask.png", 0)
    with pytest.raises(
        DataError, match=r"8 bits of grey, found the mode RGB. Is it the coloured version"
    ):
        read_scene(*files, IDS, AS_IT_IS)
    mask(tmp_path / "mask.png", 0, CITY_IDS, palette=True)
    with pytest.raises(DataError, match="found the mode P"):
        read_scene(*files, IDS, AS_IT_IS)
    allowed = Ids(IDS.table, palette=True)
    assert set(read_scene(*files, allowed, AS_IT_IS)[1].unique().tolist()) == {
        0,
        1,
        2,
        10,
        13,
        18,
        255,
    }


@pytest.mark.parametrize("which", [0, 1])
def test_16_bits(files: tuple[Path, Path], which: int) -> None:
    Image.fromarray(np.zeros((6, 8), np.uint16)).save(files[which])
    with pytest.raises(
        DataError, match=rf"{files[which].name} has 16 bits a channel, and 8 are needed"
    ):
        read_scene(*files, IDS, AS_IT_IS)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.8])
def test_a_truncated_file(files: tuple[Path, Path], which: int, kept: float) -> None:
    data = files[which].read_bytes()
    files[which].write_bytes(data[: int(kept * len(data))])
    with pytest.raises(
        DataError, match=rf"{files[which].name} is damaged or was cut off: .* Fetch it again"
    ):
        read_scene(*files, IDS, AS_IT_IS)


def test_a_file_that_has_gone(files: tuple[Path, Path]) -> None:
    files[1].unlink()
    with pytest.raises(DataError, match=r"mask.png is not there any more"):
        read_scene(*files, IDS, AS_IT_IS)


def test_the_classes_of_each_set() -> None:
    """Train ids by hand, from the sets' own tables."""
    assert [len(LISTS[name]) for name in ("cityscapes", "idda", "crosscity")] == [19, 16, 13]
    idda = Ids.of(IDDA_IDS, range(24), "idda").table
    assert idda[:24] == (
        255,
        2,
        4,
        255,
        11,
        5,
        0,
        0,
        1,
        8,
        13,
        3,
        7,
        6,
        255,
        255,
        15,
        14,
        12,
        9,
        10,
        255,
        255,
        255,
    )
    cross = Ids.of(CITYSCAPES_IDS, range(35), "crosscity").table
    expected = {
        7: 0,
        8: 1,
        11: 2,
        19: 3,
        20: 4,
        21: 5,
        23: 6,
        24: 7,
        25: 8,
        26: 9,
        28: 10,
        32: 11,
        33: 12,
    }
    assert {i: c for i, c in enumerate(cross[:35]) if c != 255} == expected
    vistas = Ids.of(MAPILLARY_IDS, range(66), "cityscapes").table
    by_hand = {
        2: 1,
        13: 0,
        24: 0,
        43: 0,
        17: 2,
        26: 9,
        44: 5,
        47: 5,
        50: 7,
        21: 12,
        55: 13,
        58: 16,
        61: 14,
    }
    assert {i: vistas[i] for i in by_hand} == by_hand
    assert vistas[65] == 255
    assert vistas[66] == -1
