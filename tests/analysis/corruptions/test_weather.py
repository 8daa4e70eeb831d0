"""Snow, frost, fog and spatter."""

from __future__ import annotations

import numpy as np
import pytest

from fedflat.analysis.corruptions.digital import (
    fog,
    frost,
    light_drops,
    plasma,
    sheet,
    snow,
    spatter,
)

BLACK, WHITE = (np.full((40, 3, 32, 32), level, np.uint8) for level in (0, 255))


def fresh() -> np.random.Generator:
    return np.random.default_rng(0)


def roughness(clouds: np.ndarray) -> float:
    """The mean step from a pixel to the next."""
    return float(np.abs(np.diff(clouds, axis=-1)).mean())


def test_clouds_fill_their_range_and_close_around() -> None:
    clouds = plasma(20, 32, 2.0, fresh())
    assert clouds.shape == (20, 1, 32, 32)
    assert np.array_equal(clouds.min(axis=(2, 3)), np.zeros((20, 1)))
    assert np.array_equal(clouds.max(axis=(2, 3)), np.ones((20, 1)))
    seam = np.abs(clouds[..., 0] - clouds[..., -1]).mean()
    assert seam == pytest.approx(roughness(clouds), rel=0.3)
    assert plasma(1, 33, 2.0, fresh()).shape == (1, 1, 64, 64)


def test_clouds_are_rougher_where_the_noise_decays_slower() -> None:
    rough, smooth = (roughness(plasma(20, 32, decay, fresh())) for decay in (1.2, 3.0))
    assert rough > 2 * smooth


@pytest.mark.parametrize(
    ("severity", "thickness"), list(enumerate((0.2, 0.5, 0.75, 1, 1.5), start=1))
)
def test_fog_against_its_formula(severity: int, thickness: float) -> None:
    """The sum dimmed by ``max / (max + thickness)``: white goes to that share at least, and to
    white at most."""
    found = fog(WHITE, severity, fresh()) / 255
    assert found.min(axis=(1, 2, 3)) == pytest.approx(np.full(40, 1 / (1 + thickness)), abs=0.003)
    assert found.max(axis=(1, 2, 3)) == pytest.approx(np.ones(40), abs=0.003)
    grey = (fog(np.full_like(WHITE, 102), severity, fresh()) / 255).reshape(40, -1)
    assert grey.max(axis=1) == pytest.approx(np.full(40, 0.4), abs=0.003)
    assert not fog(BLACK, severity, fresh()).any()


def test_fog_has_no_colour() -> None:
    red = WHITE * np.array([1, 0, 0], np.uint8).reshape(1, 3, 1, 1)
    found = fog(red, 3, fresh())
    assert np.array_equal(found[:, 1], found[:, 2])


def test_a_sheet_of_frost() -> None:
    """From 0 to 1, thicker at the border than in the middle, different for each window, at any
    size."""
    ice = sheet(60, 32, 32, fresh())
    assert ice.shape == (60, 1, 32, 32)
    assert ice.min() >= 0
    assert ice.max() <= 1
    middle, border = ice[:, :, 12:20, 12:20], np.concatenate([ice[:, :, :4], ice[:, :, -4:]])
    assert border.mean() > middle.mean() + 0.05
    assert np.abs(ice[0] - ice[1]).mean() > 0.05
    assert sheet(2, 20, 28, fresh()).shape == (2, 1, 20, 28)


@pytest.mark.parametrize(
    ("severity", "image", "ice"),
    [(1, 1, 0.2), (2, 1, 0.3), (3, 0.9, 0.4), (4, 0.85, 0.4), (5, 0.75, 0.45)],
)
def test_frost_weighs_the_image_and_the_ice(severity: int, image: float, ice: float) -> None:
    on_black, on_grey = (
        frost(x, severity, np.random.default_rng(1)).astype(float)
        for x in (BLACK, np.full_like(BLACK, 100))
    )
    assert on_black.max() <= 255 * ice + 0.5
    assert on_black.max() > 0.8 * 255 * ice
    assert np.abs(on_grey - (on_black + 100 * image)).max() <= 1
    assert np.all(on_black[:, 2] >= on_black[:, 0])  # bluish


def test_snow_only_brightens() -> None:
    for severity, keep in ((1, 0.95), (5, 0.8)):
        found = snow(BLACK, severity, fresh())
        assert found.min() >= np.floor(255 * (1 - keep) * 0.5)
        assert np.array_equal(found[:, 0], found[:, 1])
        assert np.array_equal(snow(WHITE, severity, fresh()), WHITE)


def test_snow_falls_and_looks_the_same_turned_round() -> None:
    """Streaks go down more than across; each flake has its twin half a turn away."""
    found = snow(BLACK, 4, fresh()).astype(float)
    assert np.abs(np.diff(found, axis=3)).mean() > 1.5 * np.abs(np.diff(found, axis=2)).mean()
    assert np.abs(found - found[:, :, ::-1, ::-1]).max() <= 1


def test_drops_of_water_are_turquoise_and_of_mud_brown() -> None:
    for severity in (1, 2, 3):
        found = spatter(BLACK, severity, fresh()).astype(float)
        assert found.max() == pytest.approx(0.5 * 238, abs=1)
        bright = found[:, 1] > 30
        assert found[:, 0][bright] == pytest.approx(found[:, 1][bright] * 175 / 238, abs=1)
    for severity in (4, 5):
        found = spatter(WHITE, severity, fresh()).astype(float)
        covered = found[:, 2] < 70
        assert 0.005 < covered.mean() < 0.3
        assert np.all(found[:, 0][covered] > found[:, 2][covered])
        assert found.min() >= 20
        clear = (found == 255).all(axis=1)
        assert np.all(
            clear | (found[:, 2] < 0.2 * 255 + 0.8 * 20 + 1)
        )  # what is covered, is so by 0.8 or more


def test_dry_images_have_no_drops() -> None:
    drops = np.zeros((2, 1, 16, 16), np.float32)
    drops[1, 0, 4:9, 4:9] = 1
    found = light_drops(drops, 0.5, 0.6)
    assert not found[0].any()
    assert found[1].max() == pytest.approx(0.6, abs=1e-6)
    assert not found[1, 0, :4].any()
