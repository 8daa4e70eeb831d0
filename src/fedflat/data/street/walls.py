"""Visible houses and the look of their walls.

All rays of an image column go over the ground in one direction. They hit boxes in some order; each
box is visible above those before it. So for each column the boxes are processed from near to far,
as long as one rises above all before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.camera import Array, Index, Shots
from fedflat.data.street.fragments import steps
from fedflat.data.street.frame import (
    BUILDING,
    EAST,
    NORTH,
    SOUTH,
    WEST,
    StreetFrame,
    pseudorandom,
    rough,
)
from fedflat.data.street.styles import shades
from fedflat.data.street.town import Houses, Town

REACH = 230.0
"""Distance up to which houses are rendered."""
MOST = 12
"""Most houses behind one another in a column."""


@dataclass(frozen=True)
class WallHits:
    """Hits of rays on houses: column over all shots, house, depth, and the row of its top."""

    ray: Index
    house: Index
    depth: Array
    top: Array
    sideways: NDArray[np.bool_]
    """True if it is the west or the east wall."""
    along: Array
    """Distance of the hit from the corner of the wall."""
    wide: Array
    """Width of the wall."""

    def at(self, index: Index) -> WallHits:
        """A selection of them."""
        return WallHits(
            *(getattr(self, name).take(index) for name in WallHits.__dataclass_fields__)
        )

    def facing(self, shots: Shots) -> NDArray[np.uint8]:
        """The orientations of the walls."""
        east, north = (part.take(self.ray) > 0 for part in shots.rays)
        facing = np.where(self.sideways, np.where(east, WEST, EAST), np.where(north, SOUTH, NORTH))
        return facing.astype(np.uint8)

    def blur(self, shots: Shots) -> Array:
        """Horizontal width of a pixel on the wall, in metres."""
        east, north = (part.take(self.ray) for part in shots.rays)
        return np.asarray(self.depth / shots.focal / np.abs(np.where(self.sideways, east, north)))


def raise_walls(frame: StreetFrame, town: Town) -> None:
    """Render the houses."""
    shots = frame.shots
    hits = _meet(shots, town.houses)
    layers = _peel(shots, hits)
    if not layers:
        return
    middles = np.arange(shots.rows, dtype=np.float32)[:, None] + np.float32(0.5)
    seen = np.full((shots.count, shots.rows, shots.width), -1)
    number = np.arange(shots.count * shots.width * len(layers)).reshape(
        len(layers), shots.count, 1, shots.width
    )
    for layer in range(len(layers) - 1, -1, -1):
        np.copyto(
            seen,
            number[layer],
            where=middles >= layers[layer][1].reshape(shots.count, 1, shots.width),
        )
    hits = hits.at(np.concatenate([nearest for nearest, _ in layers]))
    depth = hits.depth.take(seen)
    up = shots.height[:, None, None] - shots.drops[..., None] * depth
    there = ((seen >= 0) & (up >= 0)).ravel().nonzero()[0]
    seen, up = seen.take(there), up.take(there)
    frame.mask[there], frame.depth[there] = BUILDING, depth.take(there)
    frame.facing[there] = hits.facing(shots).take(seen)
    _paint(frame, town, hits, there, seen, up)


def _near(shots: Shots, houses: Houses) -> tuple[Index, Index]:
    """Pairs of shots and houses that may be visible."""
    around = shots.around(houses.middle, REACH + float(houses.reach.max(initial=0)))
    middle, reach, edge = (
        houses.middle.take(around, 0),
        houses.reach.take(around),
        float(shots.slopes[-1]),
    )
    right, ahead = shots.view(np.arange(shots.count)[:, None], middle[:, 0], middle[:, 1])
    inside = np.abs(right) - edge * ahead < reach * np.float32(np.hypot(1, edge))
    shot, house = ((ahead > -reach) & (ahead < REACH) & inside).nonzero()
    return shot, around.take(house)


def _meet(shots: Shots, houses: Houses) -> WallHits:
    """All hits, shot by shot and house by house."""
    shot, near = _near(shots, houses)
    sides = houses.sides.take(near, 0).T
    first, count = _columns(shots, shot, sides)
    owner, ray = np.arange(len(near)).repeat(count), steps(shot * shots.width + first, count)
    ray_east, ray_north = (part.take(ray) for part in shots.rays)
    east, north = shots.east.take(shot), shots.north.take(shot)
    one, two, three, four = (sides - np.stack([east, east, north, north])).take(owner, 1)
    one, two, three, four = one / ray_east, two / ray_east, three / ray_north, four / ray_north
    enter_east, enter_north = np.minimum(one, two), np.minimum(three, four)
    leave = np.minimum(np.maximum(one, two), np.maximum(three, four))
    depth = np.maximum(enter_east, enter_north)
    hit = ((leave >= depth) & (depth >= 0.2)).nonzero()[0]
    owner, ray, depth = owner.take(hit), ray.take(hit), depth.take(hit)
    sideways = (enter_east > enter_north).take(hit)
    end = np.where(sideways, north.take(owner), east.take(owner))
    end += depth * np.where(sideways, ray_north.take(hit), ray_east.take(hit))
    west, _, south, _ = sides
    along = end - np.where(sideways, south.take(owner), west.take(owner))
    wide = np.where(sideways, (sides[3] - south).take(owner), (sides[1] - west).take(owner))
    house, shot = near.take(owner), shot.take(owner)
    peak = houses.gable.take(house) * (1 - np.abs(2 * along / wide - 1))
    high = houses.height.take(house) + peak - shots.height.take(shot)
    top = shots.horizon.take(shot) - shots.focal * high / depth
    return WallHits(ray, house, depth, top, sideways, along, wide)


def _columns(shots: Shots, shot: Index, sides: Array) -> tuple[Index, Index]:
    """Columns that may contain houses: the first and the number, with a small margin."""
    right, ahead = shots.view(shot, sides[[0, 0, 1, 1]], sides[[2, 3, 2, 3]])
    column = shots.width / 2 + shots.focal * right / np.maximum(ahead, 1)
    whole, slack = ahead.min(0) < 1, 1 + shots.focal * 1e-3
    first = np.where(whole, 0, column.min(0) - slack).clip(0, shots.width).astype(np.int64)
    last = (
        np.where(whole, shots.width, column.max(0) + slack + 1)
        .clip(0, shots.width)
        .astype(np.int64)
    )
    return first, last - first


def _peel(shots: Shots, hits: WallHits) -> list[tuple[Index, Array]]:
    """Layers from near to far: for each ray the hit and the row of its top, or infinity."""
    size = shots.count * shots.width
    skyline, layers = np.full(size, shots.rows, np.float32), []
    ray, depth, top = hits.ray, hits.depth, hits.top
    left = np.arange(len(ray))
    for _ in range(MOST):
        higher = (top < skyline.take(ray)).nonzero()[0]
        if len(higher) == 0:
            break
        left, ray, depth, top = (
            left.take(higher),
            ray.take(higher),
            depth.take(higher),
            top.take(higher),
        )
        nearest = np.full(size, np.inf, np.float32)
        np.minimum.at(nearest, ray, depth)
        # of equally near hits, the first wins
        first = (depth == nearest.take(ray)).nonzero()[0][::-1]
        number, row = np.zeros(size, np.int64), np.full(size, np.inf, np.float32)
        number[ray[first]], row[ray[first]] = left[first], top[first]
        layers.append((number, row))
        skyline = np.minimum(skyline, row)
    return layers


def _paint(
    frame: StreetFrame, town: Town, hits: WallHits, there: Index, seen: Index, up: Array
) -> None:
    """Walls with windows between bands, and roofs.

    Everything that does not depend on the height is computed per hit.
    """
    style, houses, focal = town.style, town.houses, frame.shots.focal
    pitch, share_wide, share_high = style.windows
    house = hits.house.take(seen)
    fields = np.maximum(np.rint(hits.wide / pitch), 1)
    field = hits.along / hits.wide * fields
    column = np.floor(field)
    fade = hits.blur(frame.shots) * fields / hits.wide + 0.02
    open_wide = np.array([[share_wide / 2], [0.44]], np.float32)  # of windows, of shops
    off_wide = np.abs(field - column - 0.5)
    glass, frame_of = _soft(open_wide - off_wide, fade), _soft(open_wide + 0.07 - off_wide, fade)
    storey = (up - 0.25) / style.storey
    floor = np.floor(storey)
    shop = houses.shop.take(hits.house).take(seen) & (floor == 0)
    which = seen + shop * len(hits.house)
    rise = (hits.depth / (focal * style.storey) + 0.02).take(seen)
    half_high = np.where(shop, np.float32(0.36), np.float32(share_high / 2))
    off_high = np.abs(storey - floor - 0.5)
    eaves = houses.height.take(house)
    inside = (up < eaves - 0.5) & (up > 0.25)
    glass = glass.take(which) * _soft(half_high - off_high, rise) * inside
    frame_of = frame_of.take(which) * _soft(half_high + 0.06 - off_high, rise) * inside
    across = hits.along * 6 + (hits.house % 64 * 31).astype(np.float32)
    dirt = 0.86 + 0.28 * rough(across.take(seen), up * 5)
    roof = up > eaves
    band = ((up > eaves - 0.5) & ~roof) | (shop & (up > style.storey - 0.45)) | (up < 0.5)
    low = 0.82 + 0.18 * np.minimum(up / 3.0, 1)
    wall = houses.colours.take(house + roof * len(houses.height), 1) * np.where(
        roof, dirt, dirt * low
    )
    wall += (houses.trims.take(house, 1) - wall) * np.maximum(frame_of, band * np.float32(0.85))
    lucky = pseudorandom(house, floor.astype(np.int32), column.astype(np.int32).take(seen))
    shine = 0.65 + 0.6 * lucky + 0.25 * (storey - floor)
    wall += (shades((style.glass,)).T * shine - wall) * glass
    frame.paint(there, wall)
    if frame.glow is not None:
        frame.glow[there] = glass * np.where(shop, 0.9, (lucky < 0.4) * (0.45 + 1.3 * lucky))


def _soft(inside: Array, width: Array) -> Array:
    """1 inside, 0 outside, and between them where a pixel is wider than the edge."""
    return np.asarray((inside / width + 0.5).clip(0, 1))
