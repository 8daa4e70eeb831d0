"""What holds for every kind of corruption."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.corruptions.images import natural
from fedflat.analysis.corruptions.corruptions import BENCHMARK, COLOURED, EXTRA, KINDS, corrupt
from fedflat.errors import SettingError

IMAGES = natural()
GREY = natural(4, channels=1, side=28)


def change(kind: str, severity: int, seed: int = 0) -> float:
    """The mean absolute change of a pixel."""
    found = corrupt(IMAGES, kind, severity, np.random.default_rng(seed))
    return float(np.abs(found.astype(float) - IMAGES).mean())


def test_fifteen_and_four() -> None:
    assert (len(BENCHMARK), len(EXTRA), len(KINDS)) == (15, 4, 19)
    for name, make in KINDS.items():
        assert make.__name__ == name
        assert make.__doc__


@pytest.mark.parametrize("kind", KINDS)
def test_shape_type_and_seed(kind: str) -> None:
    before = IMAGES.copy()
    for severity in range(1, 6):
        one, same, other = (
            corrupt(IMAGES, kind, severity, np.random.default_rng(seed)) for seed in (1, 1, 2)
        )
        assert (one.shape, one.dtype) == (IMAGES.shape, np.uint8)
        assert np.array_equal(one, same)
        fixed = (
            "defocus_blur",
            "gaussian_blur",
            "zoom_blur",
            "brightness",
            "contrast",
            "saturate",
            "pixelate",
        )
        assert np.array_equal(one, other) == (kind in (*fixed, "jpeg_compression"))
        assert not np.array_equal(one, IMAGES)
    assert np.array_equal(IMAGES, before)


@pytest.mark.parametrize("kind", KINDS)
def test_images_of_a_batch_are_changed_each_on_its_own(kind: str) -> None:
    """What is random differs between equal images; the rest does not depend on the company."""
    twice = np.repeat(IMAGES[:1], 2, axis=0)
    first, second = corrupt(twice, kind, 3, np.random.default_rng(0))
    alone = corrupt(IMAGES[:1], kind, 3, np.random.default_rng(0))[0]
    drawn = not np.array_equal(first, corrupt(twice, kind, 3, np.random.default_rng(1))[0])
    assert np.array_equal(first, second) != drawn
    if not drawn:
        assert np.array_equal(first, alone)


# By their settings: motion_blur has one deviation at 3 and 4, and only the length of its faint tail
# differs. glass_blur blurs more at 3 than at 2, and at 5 than at 4, which hides part of what it
# moves. With the severity frost dims the image more, and elastic_transform's affine map shrinks.
# spatter goes from water to mud at 4. saturate fades at 1 and 2, and strengthens from 3 on.
RISING = {
    "motion_blur": [(1, 2), (2, 3), (4, 5)],
    "glass_blur": [(1, 4), (2, 4), (3, 5)],
    "frost": [(1, 2)],
    "elastic_transform": [(5, 4), (4, 3), (3, 2), (2, 1)],
    "spatter": [(1, 2), (2, 3), (4, 5)],
    "saturate": [(1, 2), (3, 4), (4, 5)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_distortion_rises_with_severity(kind: str) -> None:
    found = {severity: change(kind, severity) for severity in range(1, 6)}
    for low, high in RISING.get(kind, [(1, 2), (2, 3), (3, 4), (4, 5)]):
        assert 0 < found[low] < found[high], found


@pytest.mark.parametrize("kind", KINDS)
def test_grey_and_other_sizes(kind: str) -> None:
    if kind in COLOURED:
        with pytest.raises(SettingError, match="saturate needs colour images, and these are grey"):
            corrupt(GREY, kind, 1, np.random.default_rng(0))
        return
    for severity in (1, 5):
        found = corrupt(GREY, kind, severity, np.random.default_rng(0))
        assert (found.shape, found.dtype) == (GREY.shape, np.uint8)
        assert not np.array_equal(found, GREY)
    wide = corrupt(natural(2, side=40)[:, :, :24], kind, 5, np.random.default_rng(0))
    assert wide.shape == (2, 3, 24, 40)


@pytest.mark.parametrize("kind", KINDS)
def test_severities(kind: str) -> None:
    for wrong in (0, 6, 2.0, True, "3"):
        with pytest.raises(
            SettingError, match="severity must be a whole number of at least 1 and at most 5, found"
        ):
            corrupt(IMAGES, kind, wrong, np.random.default_rng(0))  # type: ignore[arg-type]


def test_unknown_names() -> None:
    with pytest.raises(
        SettingError, match=r"unknown corruption 'gausian_noise'\. Did you mean 'gaussian_noise'"
    ):
        corrupt(IMAGES, "gausian_noise", 1, np.random.default_rng(0))


@pytest.mark.parametrize(
    "wrong",
    [IMAGES.astype(np.float32), IMAGES[0], IMAGES[:, :2], np.zeros((2, 10), np.uint8), [[1]]],
)
def test_what_is_no_batch_of_images(wrong: np.ndarray) -> None:
    with pytest.raises(SettingError, match="images must be uint8 of shape"):
        corrupt(wrong, "fog", 1, np.random.default_rng(0))
