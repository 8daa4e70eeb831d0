"""The street world: deterministic, and exact where it can be derived in another way."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from math import cos, radians, sin, tan

import numpy as np
import pytest

from fedflat.data.street import frame as classes
from fedflat.data.street.film import APART, Film, Journey, Lens, pictures
from fedflat.data.street.frame import Camera
from fedflat.data.street.styles import STYLES
from fedflat.data.street.town import LAMP, PERSON, SIGN, TREES, Figures, Houses, Town, town
from fedflat.data.street.traffic import STEP, VIEWS, Cars, Traffic, drive
from fedflat.data.street.weather import WEATHERS, Light

DIGEST = """
import hashlib, sys
from fedflat.data.street.film import Journey
made = [Journey(3, k, k, w, v, s).film(3) for k, w, v, s in {rows}]
parts = [part.tobytes() for film in made for part in (film.images, film.masks, film.places)]
print(hashlib.sha256(b"".join(parts)).hexdigest())
"""
ROWS = [(0, "sun", "car", "real"), (1, "night", "bus", "real"), (2, "rain", "scooter", "game")]


@pytest.mark.slow
def test_another_process_draws_the_same_bits() -> None:
    made = [Journey(3, k, k, w, v, s).film(3) for k, w, v, s in ROWS]
    parts = [part.tobytes() for film in made for part in (film.images, film.masks, film.places)]
    done = subprocess.run(
        [sys.executable, "-c", DIGEST.format(rows=ROWS)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == hashlib.sha256(b"".join(parts)).hexdigest()


def test_a_frame_does_not_depend_on_how_many_are_taken() -> None:
    one, two = Journey(0, 5, 1).film(2), Journey(0, 5, 1).film(4)
    assert np.array_equal(one.images, two.images[:2])
    assert np.array_equal(one.masks, two.masks[:2])


@pytest.mark.parametrize("weather", ["dusk", "rain", "snow"])
def test_pictures_are_the_same_drawn_together_or_one_by_one(
    weather: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journey = Journey(
        2, 3, 5, weather, "car", ("real", "game")[weather == "dusk"], width=64, rows=32
    )
    together = journey.film(3)
    monkeypatch.setattr("fedflat.data.street.film.PIXELS", 1)
    alone = journey.film(3)
    assert np.array_equal(together.images, alone.images)
    assert np.array_equal(together.masks, alone.masks)


@pytest.mark.parametrize("number", range(len(STYLES)))
def test_weather_and_finish_change_colours_and_no_mask(number: int) -> None:
    films = [
        Journey(0, 7, number, weather, "car", style).film(2)
        for weather in WEATHERS
        for style in ("real", "game")
    ]
    for film in films[1:]:
        assert np.array_equal(film.masks, films[0].masks)
        assert np.array_equal(film.places, films[0].places)
        assert np.abs(film.images.astype(int) - films[0].images).mean() > 2


def bare(number: int = 0, houses: Houses | None = None, figures: Figures | None = None) -> Town:
    """A town with its streets, and of what stands there only what is given."""
    full = town(number, 0)
    none = Houses(*(getattr(full.houses, name)[:0] for name in Houses.__dataclass_fields__))
    nothing = Figures(*(getattr(full.figures, name)[:0] for name in Figures.__dataclass_fields__))
    return replace(full, houses=houses or none, figures=figures or nothing)


def no_cars() -> Cars:
    return Cars(
        *(np.zeros((0, width), np.float32) for width in (2, 2, 2, 3)), np.zeros(0, np.float32)
    )


def masked(place: Town, camera: Camera, cars: Cars | None = None) -> np.ndarray:
    """The mask of what a camera sees of a town, with these cars and no_people."""
    rng = np.random.default_rng(0)
    no_people = Figures(
        *(getattr(place.figures, name)[:0] for name in Figures.__dataclass_fields__)
    )
    light, lens = Light.sample(WEATHERS["sun"], rng), Lens.sample("real", rng)
    cars = cars or no_cars()
    traffic = Traffic(cars, np.zeros(len(cars.tall), np.int64), no_people, np.zeros(0, np.int64))
    return pictures(place, [camera], traffic, light, lens, [rng])[1][0]


def projected(camera: Camera, point: tuple[float, float, float]) -> tuple[float, float]:
    """Column and row by turning the world, written out: nothing of the camera's own formulas."""
    turn = radians(camera.heading)
    east, north, up = point[0] - camera.east, point[1] - camera.north, point[2] - camera.height
    right, ahead = cos(turn) * east - sin(turn) * north, sin(turn) * east + cos(turn) * north
    f = camera.width / (2 * tan(radians(camera.fov / 2)))
    return camera.width / 2 + f * right / ahead, camera.rows / 2 + f * tan(
        radians(camera.pitch)
    ) - f * up / ahead


LOOKS = [(3, 0.0), (71, -3.0), (160, 2.0), (290, -1.0)]
CAMERAS = [Camera(20.0, 31.0, heading, 1.5, pitch, 160, 80) for heading, pitch in LOOKS]


@pytest.mark.parametrize("number", [0, 3, 5])
def test_the_ground_is_what_lies_there(number: int) -> None:
    """Every pixel below the horizon, sent to the ground by hand, against the distance to the
    nearest street."""
    place = bare(number)
    style = place.style
    for camera in CAMERAS:
        mask = masked(place, camera)
        f = camera.width / (2 * tan(radians(camera.fov / 2)))
        horizon = camera.rows / 2 + f * tan(radians(camera.pitch))
        for i in range(0, camera.rows, 3):
            below = i + 0.5 - horizon
            if below <= 0:
                assert set(mask[i]) <= {classes.SKY, classes.GREEN}
                continue
            depth = f * camera.height / below
            if depth > 120:
                continue
            for j in range(0, camera.width, 5):
                right, turn = (j + 0.5 - camera.width / 2) / f * depth, radians(camera.heading)
                east = camera.east + depth * sin(turn) + right * cos(turn)
                north = camera.north + depth * cos(turn) - right * sin(turn)
                off = min(np.abs(place.lines[0] - east).min(), np.abs(place.lines[1] - north).min())
                edges = [
                    style.road,
                    style.road + style.verge,
                    style.road + style.verge + style.pavement,
                ]
                if min(abs(off - edge) for edge in edges) < 1e-3:
                    continue
                kind = sum(off > edge for edge in edges)
                if kind == 3 and style.setback < 1:
                    assert mask[i, j] in (classes.PAVEMENT, classes.GREEN)  # a yard, or a park
                else:
                    green = classes.GREEN
                    assert mask[i, j] == [classes.ROAD, green, classes.PAVEMENT, green][kind], (
                        camera,
                        i,
                        j,
                        off,
                    )


def test_a_house_is_where_its_corners_are() -> None:
    """A box ahead, its front at right angles to the view: a rectangle with four corners worked out
    by hand."""
    sides, looks = (
        np.array([[14.0, 26.0, 50.0, 60.0]], np.float32),
        np.full((1, 3), 0.5, np.float32),
    )
    house = Houses(
        sides,
        np.array([6.0], np.float32),
        np.zeros(1, np.float32),
        looks,
        looks,
        looks,
        np.array([False]),
    )
    for height, pitch in ((1.5, 0.0), (2.7, -3.0), (1.5, 4.0)):
        camera = Camera(20.5, 30.0, 0.0, height, pitch, 160, 80)
        left, top = projected(camera, (14.0, 50.0, 6.0))
        right, bottom = projected(camera, (26.0, 50.0, 0.0))
        mask = masked(bare(houses=house), camera)
        rows, columns = np.arange(80)[:, None] + 0.5, np.arange(160) + 0.5
        inside = (rows > top) & (rows < bottom) & (columns > left) & (columns < right)
        assert np.array_equal(mask == classes.BUILDING, inside)


def one(kind: int, height: float, half: float, place: tuple[float, float]) -> Figures:
    return Figures(
        np.array([kind]),
        np.array([place], np.float32),
        np.array([height], np.float32),
        np.array([half], np.float32),
        np.full((1, 3), 0.5, np.float32),
        np.array([4]),
        np.array([[1.0, 0.0]], np.float32),
    )


FIGURES = [
    (LAMP, 6.6, 1.6, 3.0, classes.POLE),
    (SIGN, 2.9, 0.42, 2.9 * 0.85, classes.BOARD),
    (SIGN, 2.9, 0.42, 1.0, classes.POLE),
    (PERSON, 1.7, 0.3, 1.1, classes.HUMAN),
    *((kind, 6.0, 6 * wide, 4.0, classes.GREEN) for kind, wide in TREES.values()),
]


@pytest.mark.parametrize(("kind", "height", "half", "up", "seen"), FIGURES)
def test_a_figure_is_where_it_stands(
    kind: int, height: float, half: float, up: float, seen: int
) -> None:
    for turn in (-20, 0, 25):
        camera = Camera(20.0, 31.0, 71 + turn, 1.5, -1.0, 160, 80)
        at = (20 + 9 * sin(radians(71)), 31 + 9 * cos(radians(71)))
        mask = masked(bare(figures=one(kind, height, half, at)), camera)
        if kind not in (TREES["palm"][0],):
            column, row = projected(camera, (*at, up))
            assert mask[int(row), int(column)] == seen
        _, top = projected(camera, (*at, height))
        left = projected(camera, (*at, 0.0))[0]
        reach = half / 9 / cos(radians(turn)) * camera.focal + 1
        rows, _ = np.nonzero(
            (mask == seen) & (np.arange(160) > left - reach) & (np.arange(160) < left + reach)
        )
        assert len(rows) > 0
        if seen != classes.GREEN:
            everywhere = np.nonzero(mask == seen)
            assert everywhere[0].min() + 1 > top - 0.5
            assert np.abs(everywhere[1] + 0.5 - left).max() < reach


def test_a_car_is_where_it_stands_and_hides_what_is_behind() -> None:
    cars = Cars(
        *(
            np.array([pair], np.float32)
            for pair in ((20.0, 45.0), (0.9, 2.2), (0.0, 1.0), (0.8, 0.1, 0.1))
        ),
        np.array([1.5], np.float32),
    )
    camera = Camera(20.0, 31.0, 0.0, 1.5, 0.0, 160, 80)
    mask = masked(bare(figures=one(PERSON, 1.0, 0.2, (20.0, 50.0))), camera, cars)
    assert classes.HUMAN not in mask
    left, top = projected(camera, (20.0 - 0.9, 45.0 - 2.2, 1.5))
    right, bottom = projected(camera, (20.0 + 0.9, 45.0 - 2.2, 0.0))
    for height in (0.3, 0.6, 0.84):
        for across in (-0.85, 0.0, 0.85):
            column, row = projected(camera, (20.0 + across, 45.0 - 2.2, height))
            assert mask[int(row), int(column)] == classes.CAR
    rows, columns = np.nonzero(mask == classes.CAR)
    assert rows.min() >= int(top)
    assert rows.max() < bottom
    assert columns.min() >= int(left)
    assert columns.max() < right


def test_the_own_bonnet_is_ignored_and_only_a_car_has_one() -> None:
    for view in VIEWS:
        masks = Journey(0, 1, 2, view=view).film(2).masks
        ignored = masks == classes.IGNORED
        assert ignored.any() == (view == "car")
        assert not ignored[:, : 64 * 9 // 10].any()
        assert (masks[~ignored] < len(classes.CLASSES)).all()


def test_every_class_occurs_in_every_town() -> None:
    for number in range(len(STYLES)):
        masks = Journey(0, 2, number).film(7).masks
        assert set(range(len(classes.CLASSES))) <= set(np.unique(masks)), STYLES[number].name


def stats(film: Film) -> np.ndarray:
    return film.images.reshape(len(film.images), 3, -1).mean(2)


def test_kinds_of_weather_can_be_distinguished_by_colour() -> None:
    """The nearest mean colour names the weather of a picture far more often than one in seven."""
    films = {
        weather: [stats(Journey(0, k, k % 8, weather).film(2)) for k in range(6)]
        for weather in WEATHERS
    }
    means = {weather: np.concatenate(rows[:3]).mean(0) for weather, rows in films.items()}
    right = [
        min(means, key=lambda name: float(np.hypot.reduce(row - means[name]))) == weather
        for weather, rows in films.items()
        for row in np.concatenate(rows[3:])
    ]
    assert np.mean(right) > 0.6


def test_towns_can_be_distinguished_by_their_walls() -> None:
    """Mean colours of houses under one light: for each two towns, further apart than pictures of
    one town."""
    walls = []
    for number in range(len(STYLES)):
        film = Journey(0, 3, number, "clouds", style="game").film(8)
        pixels = film.images.transpose(0, 2, 3, 1)
        built = [pixels[i][film.masks[i] == classes.BUILDING] for i in range(8)]
        shares = [(film.masks[i] == classes.SKY).mean() for i in range(8)]
        walls.append(
            np.array(
                [[*part.mean(0), 255 * share] for part, share in zip(built, shares, strict=True)]
            )
        )
    for i in range(len(walls)):
        for j in range(i):
            apart = np.abs(walls[i].mean(0) - walls[j].mean(0)) / (
                walls[i].std(0) + walls[j].std(0)
            )
            assert apart.max() > 0.5, (STYLES[i].name, STYLES[j].name)


def test_a_place_looks_alike_when_one_comes_back() -> None:
    """Two metres on, at another time with other cars: masks agree more than with any other
    place."""
    way = Journey(0, 0, 1).film(6).places - np.array([APART, 0, 0])
    again = way + np.stack(
        [2 * np.sin(np.radians(way[:, 2])), 2 * np.cos(np.radians(way[:, 2])), 0 * way[:, 2]], 1
    )
    first, second = (
        Journey(0, 100, 1, traffic=0.3).at(way).masks,
        Journey(0, 200, 1, traffic=0.3).at(again).masks,
    )
    other = [Journey(0, k, 1, traffic=0.3).film(6).masks for k in (7, 8, 9)]
    same = (first == second).mean((1, 2))
    assert same.min() > 0.75
    for film in other:
        assert (first == film).mean() < same.mean() - 0.05


def test_vehicles_drive_on_the_right_of_a_road_and_look_where_they_go() -> None:
    for number in range(len(STYLES)):
        place = town(number, 1)
        east, north, heading = drive(place, np.random.default_rng(number), 40).T
        lines = place.lines
        off = [
            np.abs(line[:, None] - at).min(0) for line, at in zip(lines, (east, north), strict=True)
        ]
        assert (np.minimum(*off) < place.style.road).all()
        steps = np.hypot(np.diff(east), np.diff(north))
        assert (steps < 2.5 * STEP).all()
        straight = (np.abs(steps - STEP) < 1.2) & (
            np.abs((np.diff(heading) + 180) % 360 - 180) < 50
        )
        course = np.degrees(np.arctan2(np.diff(east), np.diff(north)))
        aside = np.abs((course - heading[:-1] + 180) % 360 - 180)[straight]
        assert straight.sum() > 20
        assert np.median(aside) < 6
        assert aside.max() < 40
        inner = [line[(line >= -1) & (line <= 1e4)] for line in lines]
        assert (east > -10).all()
        assert (east < inner[0].max() + 10).all()


def test_towns_lie_far_apart() -> None:
    places = [Journey(0, 0, number).film(3).places[:, :2] for number in range(3)]
    for i in range(3):
        for j in range(i):
            assert np.hypot(*(places[i][:, None] - places[j]).transpose(2, 0, 1)).min() > 90_000


def test_pictures_cost_little_memory() -> None:
    journey = Journey(0, 0, 0, "night")
    journey.film(1)
    tracemalloc.start()
    film = journey.film(12)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert film.images.nbytes + film.masks.nbytes == 12 * 4 * 64 * 128
    assert peak < 12e6
