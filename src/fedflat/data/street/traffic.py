"""Moving objects: routes and views of vehicles, and the cars and people they meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.frame import Array, Camera, Index
from fedflat.data.street.styles import shades
from fedflat.data.street.town import DRIVEN, PERSON, SEEN, Figures, Town

STEP = 7.0
"""Metres between successive images of a vehicle."""
FAR = 62.0
"""Distance up to which cars and people are rendered."""
SPOTS = np.arange(-FAR, FAR, 6.2)
"""Possible positions of cars in a lane, relative to the camera."""
SIDES = np.array([-1.0, 1.0])


@dataclass(frozen=True)
class View:
    """The camera position of a kind of vehicle."""

    height: float
    pitch: float
    bonnet: float
    """Height of the own bonnet in the image, relative to the image's height."""


COATS = (
    (168, 40, 44),
    (40, 62, 108),
    (52, 54, 60),
    (206, 178, 92),
    (60, 112, 84),
    (150, 144, 140),
    (222, 222, 220),
)
VIEWS = {"car": View(1.45, 0.0, 0.07), "bus": View(2.7, -3.5, 0.0), "scooter": View(1.2, 1.5, 0.0)}


@dataclass(frozen=True)
class Cars:
    """Cars, one per row: centre, half extents, direction of the front, colour, kind of body."""

    place: Array
    half: Array
    front: Array
    tint: Array
    tall: Array

    def at(self, index: Index) -> Cars:
        """A selection of them; indices may repeat."""
        return Cars(*(getattr(self, name).take(index, 0) for name in Cars.__dataclass_fields__))


@dataclass(frozen=True)
class Traffic:
    """The cars and people near cameras, and their shots."""

    cars: Cars
    car_shot: Index
    people: Figures
    person_shot: Index


def drive(town: Town, rng: np.random.Generator, frames: int) -> NDArray[np.float64]:
    """East, north and heading along a vehicle's route, one row per image.

    It drives on the right, and turns now and then.
    """
    axis, way = int(rng.integers(2)), int(rng.choice([-1, 1]))
    inner = [lines[SEEN : SEEN + DRIVEN + 1] for lines in town.lines]
    line = float(rng.choice(inner[axis]))
    along = float(rng.uniform(inner[1 - axis][0] + 5, inner[1 - axis][-1] - 5))
    rows = []
    for _ in range(frames):
        heading = (0.0 if way > 0 else 180.0) if axis == 0 else (90.0 if way > 0 else 270.0)
        right = way * (1 if axis == 0 else -1) * town.style.road * 0.48
        here = [line + right + rng.normal(0, 0.2), along]
        look = rng.normal(0, 2.0) if rng.random() < 0.85 else rng.uniform(-24, 24)
        rows.append([*(here if axis == 0 else here[::-1]), (heading + look) % 360])
        ahead = along + way * STEP * rng.uniform(0.9, 1.1)
        crossed = [c for c in inner[1 - axis] if min(along, ahead) < c <= max(along, ahead)]
        leaves = not inner[1 - axis][0] + 3 < ahead < inner[1 - axis][-1] - 3
        if leaves or (crossed and rng.random() < 0.3):
            corner = float(inner[1 - axis][np.abs(inner[1 - axis] - along).argmin()])
            axis, along, line = 1 - axis, line, corner
            way = 1 if along < inner[1 - axis].mean() else -1
            ahead = along + way * STEP
        along = ahead
    return np.array(rows)


def camera(
    row: NDArray[np.float64], view: View, rng: np.random.Generator, width: int, rows: int
) -> Camera:
    """The camera of a vehicle at one position of its route, with a little random pitch."""
    east, north, heading = row.tolist()
    height, pitch = view.height * rng.uniform(0.97, 1.03), view.pitch + rng.normal(0, 0.5)
    return Camera(east, north, heading, height, pitch, width, rows)


def meet(
    town: Town, cameras: Sequence[Camera], rngs: Sequence[np.random.Generator], busy: float
) -> Traffic:
    """The cars and people near cameras, random for each image by its own generator."""
    cars, people, looks, counts = [], [], [], []
    for camera, rng in zip(cameras, rngs, strict=True):
        for axis in (0, 1):
            across, along = (camera.east, camera.north)[axis], (camera.north, camera.east)[axis]
            lines = town.lines[axis]
            near = lines[np.abs(lines - across) < FAR * 0.8].astype(np.float64)
            cars.append(_cars(town, rng, axis, near, across, along, busy))
            people.append(_people(town, rng, near, across, along, busy))
        count = len(people[-2][0]) + len(people[-1][0])
        looks.append(
            (
                rng.normal(1.7, 0.1, count),
                rng.integers(len(COATS), size=count),
                rng.integers(1 << 30, size=count),
            )
        )
        counts.append(count)
    shot, axes = np.divmod(np.arange(len(cars)), 2)
    driven = [len(part[0]) for part in cars]
    walking = axes.repeat([len(part[0]) for part in people])
    return Traffic(
        _build_cars(town, cars, axes.repeat(driven)),
        shot.repeat(driven),
        _persons(_to_world(walking, *_concatenate(people)), *_concatenate(looks)),
        np.arange(len(cameras)).repeat(counts),
    )


def _concatenate(parts: Sequence[tuple[Array, ...]]) -> list[Array]:
    return [np.concatenate(each) for each in zip(*parts, strict=True)]


def _to_world(axis: Index, across: Array, along: Array) -> Array:
    """East and north, one pair per row, from distances across and along streets."""
    return np.stack([np.where(axis, along, across), np.where(axis, across, along)], 1).astype(
        np.float32
    )


def _cars(
    town: Town,
    rng: np.random.Generator,
    axis: int,
    lines: Array,
    across: float,
    along: float,
    busy: float,
) -> tuple[Array, ...]:
    """Cars parked at both kerbs and driving in both lanes; the camera's own place is free."""
    style = town.style
    lanes = lines[:, None, None] + SIDES[:, None] * np.array([style.road * 0.48, style.road - 1.05])
    shape = (*lanes.shape, len(SPOTS))  # streets, sides, driving or parked, positions
    at = along + SPOTS + rng.uniform(-0.6, 0.6, shape) + rng.uniform(0, 6.2, lanes.shape)[..., None]
    share = np.array([0.16, style.parked * (style.road > 3.5)])[:, None]
    occupied = (rng.random(shape) < share * busy).ravel().nonzero()[0]
    lane, at = occupied // len(SPOTS), at.take(occupied)
    middle = lanes.take(lane)
    clear = np.abs(at[:, None] - town.lines[1 - axis]).min(1) > style.road + np.array(
        [2.5, 5.0]
    ).take(lane % 2)
    clear &= np.hypot(at - along, middle - across) > 6.5
    lane, middle, at = lane[clear], middle[clear], at[clear]
    count = len(at)
    long, wide = rng.uniform(2.0, 2.35, count), rng.uniform(0.86, 0.93, count)
    tint, van = rng.integers(len(style.cars), size=count), rng.random(count) < 0.2
    return (
        middle,
        at,
        lane,
        wide,
        long,
        tint,
        van,
        rng.uniform(1.9, 2.3, count),
        rng.uniform(1.4, 1.55, count),
    )


def _build_cars(town: Town, parts: Sequence[tuple[Array, ...]], axis: Index) -> Cars:
    middle, at, lane, wide, long, tint, van, tall, low = _concatenate(parts)
    side = SIDES.take(lane // 2 % 2)
    way = np.where(axis, -side, side)  # driving on the right
    place, half, front = (
        _to_world(axis, *pair) for pair in ((middle, at), (wide, long), (0 * way, way))
    )
    return Cars(
        place,
        half,
        front,
        shades(town.style.cars).take(tint, 0),
        np.where(van, tall, low).astype(np.float32),
    )


def _people(
    town: Town, rng: np.random.Generator, lines: Array, across: float, along: float, busy: float
) -> tuple[Array, Array]:
    """Positions of people along these streets, across and along; a few cross them."""
    style = town.style
    line = lines.repeat(rng.poisson(style.people * busy, len(lines)))
    count = len(line)
    at = rng.uniform(along - FAR, along + FAR, count)
    off = style.road + style.verge + 0.3 + rng.uniform(0, style.pavement - 0.4, count)
    off = np.where(rng.random(count) < 0.07, rng.uniform(-1, 1, count) * style.road, off)
    middle = line + SIDES.take(rng.integers(2, size=count)) * off
    visible = np.hypot(at - along, middle - across) > 4.5
    return middle[visible], at[visible]


def _persons(place: Array, height: Array, coat: Index, own: Index) -> Figures:
    count, height = len(place), height.clip(1.1, 2.0)
    return Figures(
        np.full(count, PERSON),
        place,
        height.astype(np.float32),
        (height * 0.17).astype(np.float32),
        shades(COATS).take(coat, 0),
        own,
        np.zeros((count, 2), np.float32),
    )
