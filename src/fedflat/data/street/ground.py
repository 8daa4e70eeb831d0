"""The ground: roads with markings, kerbs, pavements, lawns, and hills at its end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.camera import Array, Index
from fedflat.data.street.frame import GREEN, PAVEMENT, ROAD, SKY, UP, StreetFrame, noise, rough
from fedflat.data.street.styles import Style, shades
from fedflat.data.street.town import Town

EDGE = 400.0
"""Distance of the hills in metres."""
HILL, PAINT = np.array([0.32, 0.42, 0.34], np.float32), np.array([0.86, 0.86, 0.84], np.float32)


@dataclass(frozen=True)
class Ground:
    """Pixels of the ground and their positions in the town."""

    place: Index
    east: Array
    north: Array

    def only(self, chosen: NDArray[np.bool_]) -> Ground:
        """A selection of them."""
        return Ground(
            self.place.compress(chosen), self.east.compress(chosen), self.north.compress(chosen)
        )


def lay_ground(frame: StreetFrame, town: Town) -> Ground:
    """Render everything below the horizon that no house hides."""
    shots, style = frame.shots, town.style
    _hills(frame, town)
    lines = (shots.drops >= shots.exact_height[:, None] / EDGE).reshape(-1, 1)
    place = ((frame.mask == SKY).reshape(-1, shots.width) & lines).ravel().nonzero()[0]
    shot, line, ray = frame.lines(place)
    depth = shots.height.take(shot) / shots.drops.take(line)
    ray_east, ray_north = (part.take(ray) for part in shots.rays)
    east, north = (
        shots.east.take(shot) + depth * ray_east,
        shots.north.take(shot) + depth * ray_north,
    )
    off_east, off_north = town.street(0, east), town.street(1, north)
    far_east, far_north = np.abs(off_east), np.abs(off_north)
    off = np.minimum(far_east, far_north)
    walk = style.road + style.verge
    road, paved = off < style.road, (off >= walk) & (off < walk + style.pavement)
    flat = paved
    if style.setback < 1:
        yard = (off >= walk + style.pavement).nonzero()[0]
        flat = paved.copy()
        flat[yard] = ~_parks(town, east.take(yard), north.take(yard))
    kind = np.where(road, 2, flat)
    frame.mask[place] = np.array([GREEN, PAVEMENT, ROAD], np.uint8).take(kind)
    frame.depth[place], frame.facing[place] = depth, UP
    strength = 0.72 + 0.34 * rough(east * 9, north * 9) + 0.26 * rough(east * 1.3, north * 1.3)
    tones = shades((style.lawn, style.flags, style.asphalt)).T
    colour = tones.take(kind, 1) * strength
    pixel = depth / shots.focal
    along = np.where(far_east < far_north, off_north, off_east)
    _marks(colour, style, road, off, np.maximum(far_east, far_north), along, pixel)
    near = (paved & (depth < 18)).nonzero()[0]
    joint = (
        np.minimum(np.abs(east.take(near) % 1.5 - 0.75), np.abs(north.take(near) % 1.5 - 0.75))
        > 0.71
    )
    kerb = (np.abs(off - style.road - 0.12) < np.maximum(0.14, pixel * 0.4)) & (depth < 60)
    for plane in colour:
        plane[near.compress(joint)] *= 0.86
        plane[kerb] = 0.72
    frame.paint(place, colour)
    return Ground(place, east, north)


def _hills(frame: StreetFrame, town: Town) -> None:
    """Green hills behind everything, depending on the direction only."""
    shots = frame.shots
    angle = np.degrees(np.arctan(shots.slopes)) + shots.heading[:, None]
    ridge = np.interp(angle % 360 / 360 * 256, np.arange(257), _ridge(town.number))
    high = np.float32(0.012) + np.float32(0.055) * ridge
    far = shots.drops < (shots.exact_height / EDGE).astype(np.float32)[:, None]
    line = (far & (-shots.drops < high.max())).ravel().nonzero()[0]
    covered = -shots.drops.take(line)[:, None] < high.take(line // shots.rows, 0)
    covered &= frame.mask.reshape(-1, shots.width).take(line, 0) == SKY
    place = (line[:, None] * shots.width + np.arange(shots.width))[covered]
    frame.mask[place], frame.depth[place] = GREEN, EDGE
    frame.paint(place, HILL)


@lru_cache(maxsize=32)
def _ridge(number: int) -> Array:
    """The height of the hills around a town, by direction."""
    tile = noise()[(number * 37) & 255]
    return np.append(tile, tile[0]).astype(np.float64)


def _parks(town: Town, east: Array, north: Array) -> Array:
    columns = np.clip(np.searchsorted(town.lines[0], east) - 1, 0, town.parks.shape[1] - 1)
    rows = np.clip(np.searchsorted(town.lines[1], north) - 1, 0, town.parks.shape[0] - 1)
    return np.asarray(town.parks[rows, columns])


def _marks(
    colour: Array, style: Style, road: Array, across: Array, far: Array, along: Array, pixel: Array
) -> None:
    """Centre lines and crossings, antialiased.

    ``across`` and ``along`` are measured from the centre of the street and of the next crossing
    street; ``far`` is the length of ``along``, ``pixel`` the width of a pixel there.
    """
    past = far - style.road
    corner = (road & (past > 0.9) & (past < 4.4) & (across < style.road - 0.3)).nonzero()[0]
    at = past.take(corner)
    painted = ((at < 3.4) & (across.take(corner) % 1.1 < 0.55)) | (at > 4.0)
    _blend(colour, corner.compress(painted), PAINT, np.float32(0.9))
    plain = (road & (past > 4.4)).nonzero()[0]
    across, along, pixel = across.take(plain), along.take(plain), pixel.take(plain)
    (centre,) = shades((style.centre,))
    if style.solid:
        lanes = 0.06, 0.06 - np.abs(across - style.road / 2), 2.5, 1.0
        middle = 0.07, 0.07 - np.abs(across - 0.16), 6.0, 1.0
    else:
        lanes = 0.05, 0.05 - np.abs(across - style.road + 0.35), 6.0, 0.7
        middle = 0.07, 0.07 - across, 3.0, 1.0
    for tone, (half, inside, dash, strength) in ((PAINT, lanes), (centre, middle)):
        near = (inside > -pixel).nonzero()[0]
        share = _cover(inside.take(near), half, pixel.take(near)) * np.float32(strength)
        _blend(colour, plain.take(near), tone, share * (along.take(near) % 6 < dash))


def _blend(colour: Array, place: Index, tone: Array, share: Array | np.float32) -> None:
    """Blend a colour into pixels by a share."""
    for plane, part in zip(colour, tone, strict=True):
        bare = plane.take(place)
        plane[place] = bare + (part - bare) * share


def _cover(inside: Array, half: float, pixel: Array) -> Array:
    """The share of a pixel that a line of this half width covers."""
    return np.asarray((inside / pixel + 0.5).clip(0, 1) * np.minimum(1, 2 * half / pixel))
