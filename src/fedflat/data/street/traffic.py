"""What moves: where a vehicle drives and how it looks around, and the cars and people it meets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.camera import Array, Camera
from fedflat.data.street.styles import shades
from fedflat.data.street.town import DRIVEN, PERSON, SEEN, Figures, Town

STEP = 7.0
"""Metres from one picture of a vehicle to its next."""
FAR = 62.0
"""How far away cars and people are still drawn."""
SPOTS = np.arange(-FAR, FAR, 6.2)
"""Where in a lane there may be a car, from the camera."""
SIDES = np.array([-1.0, 1.0])


@dataclass(frozen=True)
class View:
    """From where a vehicle looks."""

    height: float
    pitch: float
    bonnet: float
    """How high the own bonnet stands in the picture, as a share of it."""


COATS = ((168, 40, 44), (40, 62, 108), (52, 54, 60), (206, 178, 92), (60, 112, 84), (150, 144, 140), (222, 222, 220))
VIEWS = {"car": View(1.45, 0.0, 0.07), "bus": View(2.7, -3.5, 0.0), "scooter": View(1.2, 1.5, 0.0)}


@dataclass(frozen=True)
class Cars:
    """Cars, one a row: middle, half extents east and north, the side the front looks to, colour, kind of body."""

    place: Array
    half: Array
    front: Array
    tint: Array
    tall: Array

    def __len__(self) -> int:
        return len(self.tall)

    @classmethod
    def joined(cls, parts: list[Cars]) -> Cars:
        """All of them in one."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))

    def at(self, index: NDArray[np.int64]) -> Cars:
        """Some of them, or one as often as it is named."""
        return Cars(*(getattr(self, name).take(index, 0) for name in Cars.__dataclass_fields__))


def drive(town: Town, rng: np.random.Generator, frames: int) -> NDArray[np.float64]:
    """East, north and heading along the way of one vehicle, a row a picture. It keeps right, and turns now and then."""
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


def camera(row: NDArray[np.float64], view: View, rng: np.random.Generator, width: int, rows: int) -> Camera:
    """The camera of a vehicle at one place of its way; it nods a little."""
    east, north, heading = row.tolist()
    height, pitch = view.height * rng.uniform(0.97, 1.03), view.pitch + rng.normal(0, 0.5)
    return Camera(east, north, heading, height, pitch, width, rows)


def meet(town: Town, seen: Camera, rng: np.random.Generator, busy: float) -> tuple[Cars, Figures]:
    """The cars and people near a camera, drawn anew for each picture."""
    cars, people = [], []
    for axis in (0, 1):
        across, along = (seen.east, seen.north)[axis], (seen.north, seen.east)[axis]
        lines = town.lines[axis]
        near = lines[np.abs(lines - across) < FAR * 0.8].astype(np.float64)
        cars.append(_cars(town, rng, axis, near, across, along, busy))
        people.append(_people(town, rng, axis, near, across, along, busy))
    return Cars(*(np.concatenate(parts) for parts in zip(*cars, strict=True))), _persons(rng, np.concatenate(people))


def _cars(
    town: Town, rng: np.random.Generator, axis: int, lines: Array, across: float, along: float, busy: float
) -> tuple[Array, ...]:
    """Parked at both kerbs, driving in both lanes of these streets; the camera's own place is free."""
    style = town.style
    lanes = lines[:, None, None] + SIDES[:, None] * np.array([style.road * 0.48, style.road - 1.05])
    shape = (*lanes.shape, len(SPOTS))  # streets, sides, driving and parked, spots along the street
    at = along + SPOTS + rng.uniform(-0.6, 0.6, shape) + rng.uniform(0, 6.2, lanes.shape)[..., None]
    share = np.array([0.16, style.parked * (style.road > 3.5)])[:, None]
    kept = (rng.random(shape) < share * busy).ravel().nonzero()[0]
    lane, at = kept // len(SPOTS), at.take(kept)
    middle, parked = lanes.take(lane), lane % 2
    clear = np.abs(at[:, None] - town.lines[1 - axis]).min(1) > style.road + np.array([2.5, 5.0]).take(parked)
    clear &= np.hypot(at - along, middle - across) > 6.5
    middle, at, side = middle[clear], at[clear], SIDES.take((lane // 2 % 2)[clear])
    count = len(at)
    way = side if axis == 0 else -side  # one keeps right
    long, wide = rng.uniform(2.0, 2.35, count), rng.uniform(0.86, 0.93, count)
    tint = shades(style.cars).take(rng.integers(len(style.cars), size=count), 0)
    tall = np.where(rng.random(count) < 0.2, rng.uniform(1.9, 2.3, count), rng.uniform(1.4, 1.55, count))
    pairs = ((middle, at), (wide, long), (0 * way, way))
    turned = np.array([pair[:: -1 if axis else 1] for pair in pairs], np.float32)
    return (*turned.transpose(0, 2, 1), tint, tall.astype(np.float32))


def _people(
    town: Town, rng: np.random.Generator, axis: int, lines: Array, across: float, along: float, busy: float
) -> NDArray[np.float64]:
    """Where people walk along these streets; a few cross them."""
    style = town.style
    line = lines.repeat(rng.poisson(style.people * busy, len(lines)))
    count = len(line)
    at = rng.uniform(along - FAR, along + FAR, count)
    off = style.road + style.verge + 0.3 + rng.uniform(0, style.pavement - 0.4, count)
    off = np.where(rng.random(count) < 0.07, rng.uniform(-1, 1, count) * style.road, off)
    middle = line + SIDES.take(rng.integers(2, size=count)) * off
    kept = np.hypot(at - along, middle - across) > 4.5
    return np.stack((middle, at)[:: -1 if axis else 1], 1)[kept]


def _persons(rng: np.random.Generator, place: NDArray[np.float64]) -> Figures:
    count = len(place)
    height = rng.normal(1.7, 0.1, count).clip(1.1, 2.0)
    tint = shades(COATS).take(rng.integers(len(COATS), size=count), 0)
    return Figures(
        np.full(count, PERSON), place.astype(np.float32), height.astype(np.float32), (height * 0.17).astype(np.float32),
        tint, rng.integers(1 << 30, size=count), np.zeros((count, 2), np.float32),
    )  # fmt: skip
