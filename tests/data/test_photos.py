"""Random parts and centres of photographs of any size."""

from __future__ import annotations

from math import isclose
from pathlib import Path

import numpy as np
import pytest
import torch

from fedflat.data.files.pictures import Picture
from fedflat.data.sets.landmarks import Photos, central_box, random_box, scaled

Image = pytest.importorskip("PIL.Image")
SIZES = ((40, 90), (90, 40), (64, 64))


@pytest.fixture
def photos(tmp_path: Path) -> Photos:
    rng = np.random.default_rng(0)
    paths = []
    for i, (height, width) in enumerate(SIZES):
        paths.append(str(tmp_path / f"{i}.png"))
        Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)).save(paths[-1])
    half = (0.5, 0.5, 0.5)
    return Photos(tuple(paths), Picture(), torch.tensor([2, 0, 1]), 3, half, half, side=32)


def test_the_random_part_is_what_is_asked_for() -> None:
    """Inside the photograph, area 8 to 100 %, aspect 3/4 to 4/3, up to rounding; spread widely."""
    rng, areas, aspects = torch.Generator().manual_seed(0), [], []
    for _ in range(2000):
        top, left, height, width = random_box(300, 500, rng)
        assert 0 <= top <= 300 - height
        assert 0 <= left <= 500 - width
        areas.append(height * width / 150_000)
        aspects.append(width / height)
    assert 0.078 < min(areas) < 0.09
    assert max(areas) < 0.81  # 300 high and at most 400 wide
    assert 0.74 < min(aspects) < 0.78
    assert 1.3 < max(aspects) < 1.35
    # Large parts do not fit and are drawn again, so the mean is below 0.54.
    assert 0.3 < np.mean(areas) < 0.5


def test_ten_tries_and_then_the_centre() -> None:
    """No part of aspect 3/4 to 4/3 and 8 % of the area fits into a strip of 1x100 pixels."""
    assert random_box(1, 100, torch.Generator().manual_seed(0)) == central_box(1, 100)
    assert central_box(1, 100) == (0, 50, 1, 1)
    assert central_box(256, 256) == (16, 16, 224, 224)


def test_scaling_keeps_a_constant_and_a_slope() -> None:
    slope = torch.arange(64, dtype=torch.uint8).expand(3, 64, 64)
    small = scaled(slope, (0, 0, 64, 64), 32).float()
    inner = small[:, :, 4:-4]
    np.testing.assert_allclose(inner[0, 0], 2 * torch.arange(4, 28) + 0.5, atol=0.51)
    assert torch.equal(scaled(slope, (3, 5, 32, 32), 32), slope[:, 3:35, 5:37])
    assert int(scaled(torch.full((3, 9, 9), 255, dtype=torch.uint8), (0, 0, 9, 9), 32).min()) == 255


def test_batches(photos: Photos) -> None:
    index = torch.tensor([2, 0])
    assert photos.shape == (3, 32, 32)
    plain = photos.plain().batch(index, torch.float64, torch.Generator().manual_seed(1))
    assert plain.inputs.shape == (2, 3, 32, 32)
    assert plain.targets.tolist() == [1, 2]
    centre = scaled(Picture()(photos.paths[0]), central_box(*SIZES[0]), 32)
    np.testing.assert_allclose(plain.inputs[1], centre.double() / 127.5 - 1, atol=1e-12)
    assert torch.equal(photos.raw(index).inputs[1], centre)
    one, same, other = (
        photos.batch(index, torch.float64, torch.Generator().manual_seed(seed)).inputs
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not torch.equal(one, plain.inputs)
    assert torch.equal(photos.batch(index, torch.float64).inputs, plain.inputs)
    assert photos.augments
    assert not photos.plain().augments
    assert isclose(float(one.max()), 1, abs_tol=0.05)


def test_half_of_the_parts_are_mirrored(tmp_path: Path) -> None:
    """A photograph that is dark on the left."""
    picture = np.zeros((50, 50, 3), np.uint8)
    picture[:, 25:] = 255
    Image.fromarray(picture).save(tmp_path / "a.png")
    photos = Photos((str(tmp_path / "a.png"),), Picture(), torch.tensor([0]), 1, side=8)
    rng, index = torch.Generator().manual_seed(0), torch.zeros(1, dtype=torch.long)
    slopes = []
    for _ in range(400):
        row = photos.batch(index, torch.float64, rng).inputs[0, 0].mean(0)
        slopes.append(float(row[-1] - row[0]))
    right, left = sum(s > 0.5 for s in slopes), sum(s < -0.5 for s in slopes)
    assert right + left > 150
    assert 0.4 < right / (right + left) < 0.6
