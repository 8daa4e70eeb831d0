"""A town: a grid of streets, blocks of houses, and objects along the kerbs.

It is generated once from a seed. East-west and north-south streets cross at right angles, at
varying distances. All lengths are metres in the town's own coordinates: 0 is the south-western
corner of the part in which vehicles drive. The blocks around it are only visible.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from fedflat.core.seeds import numpy_generator
from fedflat.data.street.frame import Array
from fedflat.data.street.styles import Style, style_of

DRIVEN, SEEN = 5, 3
"""Blocks per side in which vehicles drive, and rows of blocks around them that are only visible."""
DEEP = 11.0
"""Depth of a house in metres."""
LAMP, SIGN, LIGHTS, PERSON, TREE, POPLAR, FIR, PALM = range(8)
TREES = {"round": (TREE, 0.3), "poplar": (POPLAR, 0.13), "fir": (FIR, 0.23), "palm": (PALM, 0.3)}
"""The kind of a tree, and half its width relative to its height."""


@dataclass(frozen=True)
class Houses:
    """Boxes on the ground, one per row: sides, height of the eaves, and looks."""

    sides: Array
    height: Array
    gable: Array
    wall: Array
    trim: Array
    roof: Array
    shop: NDArray[np.bool_]

    @cached_property
    def middle(self) -> Array:
        """East and north of the centres."""
        return (
            np.stack([self.sides[:, 0] + self.sides[:, 1], self.sides[:, 2] + self.sides[:, 3]], 1)
            / 2
        )

    @cached_property
    def reach(self) -> Array:
        """Distance from the centre to a corner."""
        return np.asarray(
            np.hypot(self.sides[:, 1] - self.sides[:, 0], self.sides[:, 3] - self.sides[:, 2]) / 2
        )

    @cached_property
    def colours(self) -> Array:
        """RGB of the walls, then of the roofs."""
        return np.concatenate([self.wall, self.roof]).T.copy()

    @cached_property
    def trims(self) -> Array:
        return self.trim.T.copy()


@dataclass(frozen=True)
class Figures:
    """Upright flat objects, one per row: kind, position, height, half width, tint and a number.

    ``toward`` is the direction (east, north) of a lamp's arm.
    """

    kind: NDArray[np.int64]
    place: Array
    height: Array
    half: Array
    tint: Array
    own: NDArray[np.int64]
    toward: Array

    def __len__(self) -> int:
        return len(self.kind)

    def at(self, index: NDArray[np.int64]) -> Figures:
        """A selection of them."""
        return Figures(
            *(getattr(self, name).take(index, 0) for name in Figures.__dataclass_fields__)
        )

    @classmethod
    def concatenate(cls, parts: list[Figures]) -> Figures:
        return cls(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in cls.__dataclass_fields__
            )
        )


@dataclass(frozen=True)
class Town:
    """Streets, houses and figures, with lookup tables."""

    number: int
    style: Style
    lines: tuple[Array, Array]
    """Positions of the north-south streets (east), and of the east-west streets (north)."""
    houses: Houses
    figures: Figures
    low: float
    """The smallest coordinate in the tables, which have a row per metre."""
    nearest: tuple[Array, Array]
    """The street nearest to each metre."""
    roofs: NDArray[np.uint8]
    """Height of buildings, by metre north and metre east."""
    parks: NDArray[np.bool_]
    """True for blocks that are parks: by block north and block east."""

    def street(self, axis: int, at: Array) -> Array:
        """Distance of coordinates from the nearest street that crosses ``axis``."""
        table = self.nearest[axis]
        return at - table[np.clip(at - self.low, 0, len(table) - 1).astype(np.int32)]


@lru_cache(maxsize=32)
def town(number: int, seed: int) -> Town:
    """Town ``number`` of the world with this ``seed``."""
    style, rng = style_of(number), numpy_generator(seed, "street/town", number)
    east, north = _lines(style, rng), _lines(style, rng)
    parks = rng.random((len(north) - 1, len(east) - 1)) < style.parks
    sides = []
    figures = [
        _furniture(style, rng, east, north),
        _furniture(style, rng, north, east, turned=True),
    ]
    inset = style.road + style.verge + style.pavement + style.setback
    for j in range(len(north) - 1):
        for i in range(len(east) - 1):
            block = (east[i] + inset, east[i + 1] - inset, north[j] + inset, north[j + 1] - inset)
            if parks[j, i]:
                figures.append(_trees(style, rng, _scattered(rng, block)))
            else:
                sides.append(_perimeter(style, rng, block))
    houses = _houses(style, rng, np.concatenate(sides))
    low = float(min(east[0], north[0])) - 40
    metres = np.arange(low, max(east[-1], north[-1]) + 40) + 0.5
    nearest = (_nearest(east, metres), _nearest(north, metres))
    roofs = _roofs(houses, low, len(metres))
    return Town(
        number,
        style,
        (east, north),
        houses,
        Figures.concatenate(figures),
        low,
        nearest,
        roofs,
        parks,
    )


def _lines(style: Style, rng: np.random.Generator) -> Array:
    gaps = rng.uniform(*style.block, DRIVEN + 2 * SEEN)
    lines = np.concatenate([[0.0], np.cumsum(gaps)])
    return np.asarray(lines - lines[SEEN], np.float32)


def _nearest(lines: Array, metres: NDArray[np.float64]) -> Array:
    return np.asarray(lines[np.abs(metres[:, None] - lines).argmin(1)])


def _perimeter(
    style: Style, rng: np.random.Generator, block: tuple[float, float, float, float]
) -> Array:
    """Houses along the four sides of a block; some lots are empty."""
    west, east, south, north = block
    depth = min(DEEP, (east - west) / 2.4, (north - south) / 2.4)
    rows = []
    for start, end in _cut(style, rng, west, east):
        rows += [(start, end, south, south + depth)]
    for start, end in _cut(style, rng, west, east):
        rows += [(start, end, north - depth, north)]
    for start, end in _cut(style, rng, south + depth + style.gap, north - depth - style.gap):
        rows += [(west, west + depth, start, end)]
    for start, end in _cut(style, rng, south + depth + style.gap, north - depth - style.gap):
        rows += [(east - depth, east, start, end)]
    lots = np.array(rows, np.float32).reshape(-1, 4)
    return lots[rng.random(len(lots)) < 0.95]


def _cut(
    style: Style, rng: np.random.Generator, start: float, end: float
) -> list[tuple[float, float]]:
    """Lots from ``start`` to ``end`` of about the width that the style has."""
    least, most = style.lot
    if end - start < least:
        return []
    count = max(1, round((end - start + style.gap) / ((least + most) / 2 + style.gap)))
    shares = rng.uniform(least, most, count)
    wide = shares / shares.sum() * (end - start - style.gap * (count - 1))
    starts = start + np.concatenate([[0.0], np.cumsum(wide[:-1] + style.gap)])
    return list(zip(starts.tolist(), (starts + wide).tolist(), strict=True))


def _houses(style: Style, rng: np.random.Generator, sides: Array) -> Houses:
    count = len(sides)
    low, high = style.floors
    floors = np.floor(low + (high + 1 - low) * rng.random(count) ** 1.5)
    height = floors * style.storey + 0.8
    width = np.minimum(sides[:, 1] - sides[:, 0], sides[:, 3] - sides[:, 2])
    gable = style.gable * width * rng.uniform(0.7, 1.0, count)

    def random_colours(colours: tuple[tuple[int, int, int], ...], spread: float) -> Array:
        chosen = np.array(colours)[rng.integers(len(colours), size=count)] / 255
        return np.clip(chosen * rng.uniform(1 - spread, 1 + spread, (count, 1)), 0, 1).astype(
            np.float32
        )

    return Houses(
        sides,
        height.astype(np.float32),
        gable.astype(np.float32),
        random_colours(style.walls, 0.08),
        random_colours(style.trims, 0.03),
        random_colours(style.roofs, 0.1),
        rng.random(count) < style.shops,
    )


def _roofs(houses: Houses, low: float, metres: int) -> NDArray[np.uint8]:
    table = np.zeros((metres, metres), np.uint8)
    edges = np.clip(np.round(houses.sides - low).astype(int), 0, metres)
    for (west, east, south, north), height in zip(
        edges, houses.height + houses.gable / 2, strict=True
    ):
        table[south:north, west:east] = int(height)
    return table


def _furniture(
    style: Style, rng: np.random.Generator, lines: Array, across: Array, *, turned: bool = False
) -> Figures:
    """Objects along the kerbs of parallel streets: trees, lamps, signs, and traffic lights."""
    parts = []
    start, end = float(across[0]), float(across[-1])
    corner = style.road + style.verge + style.pavement

    def add_row(
        kind: int, line: float, side: int, at: NDArray[np.float64], off: float, clear: float
    ) -> None:
        at = at[np.abs(at[:, None] - across).min(1) > clear]
        sideways = np.full(len(at), line + side * off)
        place = np.stack([at, sideways] if turned else [sideways, at], 1)
        toward = np.broadcast_to([0.0, -side] if turned else [-side, 0.0], place.shape)
        parts.append(
            _trees(style, rng, place) if kind == TREE else _posts(kind, rng, place, toward)
        )

    for number, line in enumerate(lines.tolist()):
        for side in (-1, 1):
            kerb = style.road + (style.verge / 2 if style.verge else 0.7)
            trees = np.arange(start, end, style.tree_gap) + rng.uniform(0, style.tree_gap)
            add_row(
                TREE, line, side, trees + rng.uniform(-1, 1, len(trees)), kerb + 0.2, corner + 3
            )
            lamps = np.arange(start, end, style.lamp_gap) + (side > 0) * style.lamp_gap / 2
            add_row(LAMP, line, side, lamps, style.road + 0.45, corner)
            signs = np.arange(start, end, 37.0) + rng.uniform(0, 37)
            add_row(
                SIGN, line, side, signs + rng.uniform(-9, 9, len(signs)), style.road + 0.5, corner
            )
            kind = LIGHTS if style.road > 4 and number % 2 == 0 else SIGN
            add_row(
                kind,
                line,
                side,
                across - side * (style.road + 0.9) * (1 if turned else -1),
                style.road + 0.6,
                0.5,
            )
    return Figures.concatenate(parts)


def _posts(
    kind: int, rng: np.random.Generator, place: NDArray[np.float64], toward: NDArray[np.float64]
) -> Figures:
    count = len(place)
    height, half = {LAMP: (6.6, 1.6), SIGN: (2.9, 0.42), LIGHTS: (3.5, 0.3)}[kind]
    own = rng.integers(1 << 30, size=count)
    tint = np.broadcast_to(np.float32(0.36), (count, 3))
    tall = np.full(count, height) * rng.uniform(0.95, 1.05, count)
    return Figures(
        np.full(count, kind),
        place.astype(np.float32),
        tall.astype(np.float32),
        np.full(count, half, np.float32),
        tint,
        own,
        toward.astype(np.float32),
    )


def _trees(style: Style, rng: np.random.Generator, place: NDArray[np.floating]) -> Figures:
    count = len(place)
    height = rng.uniform(*style.tree_height, count)
    kind, wide = TREES[style.tree]
    tint = (
        np.array(style.leaves)[rng.integers(len(style.leaves), size=count)]
        / 255
        * rng.uniform(0.9, 1.1, (count, 1))
    )
    return Figures(
        np.full(count, kind),
        np.asarray(place, np.float32),
        height.astype(np.float32),
        (height * wide * rng.uniform(0.9, 1.15, count)).astype(np.float32),
        tint.astype(np.float32),
        rng.integers(1 << 30, size=count),
        np.zeros((count, 2), np.float32),
    )


def _scattered(
    rng: np.random.Generator, block: tuple[float, float, float, float]
) -> NDArray[np.float64]:
    west, east, south, north = block
    count = int((east - west) * (north - south) / 55)
    return np.stack([rng.uniform(west, east, count), rng.uniform(south, north, count)], 1)
