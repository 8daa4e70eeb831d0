"""Which house is seen where, and how its walls look.

A ray of the camera goes over the ground into one direction for all pixels of a column. It meets boxes in some order;
each is seen above those before it. So for each column the boxes are peeled off from near to far, as long as one rises
above all before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.camera import Array, Camera
from fedflat.data.street.fragments import steps
from fedflat.data.street.frame import BUILDING, EAST, NORTH, SOUTH, WEST, Frame, hashed, rough
from fedflat.data.street.styles import shades
from fedflat.data.street.town import Houses, Town

REACH = 230.0
"""How far houses are seen."""
MOST = 12
"""The most houses behind one another in a column."""


@dataclass(frozen=True)
class Hits:
    """Where rays meet houses: the ray's column and the house, how far that is and which row its top has there."""

    column: NDArray[np.int64]
    house: NDArray[np.int64]
    depth: Array
    top: Array
    sideways: NDArray[np.bool_]
    """Whether it is the west or the east wall."""
    along: Array
    """How far from the corner of the wall the ray ends."""
    wide: Array
    """From corner to corner."""

    def at(self, index: NDArray[np.int64]) -> Hits:
        """Some of them."""
        return Hits(*(getattr(self, name).take(index) for name in Hits.__dataclass_fields__))


def raise_walls(frame: Frame, town: Town) -> None:
    """Put the houses into a picture."""
    camera = frame.camera
    hits = _meet(camera, town.houses, _near(camera, town.houses))
    layers = _peel(camera, hits)
    if not layers:
        return
    middles = np.arange(camera.rows, dtype=np.float32)[:, None] + np.float32(0.5)
    seen = np.full((camera.rows, camera.width), -1)
    columns = np.arange(camera.width)
    for number, (_, top) in reversed(list(enumerate(layers))):
        np.copyto(seen, number * camera.width + columns, where=middles >= top)
    hits = hits.at(np.concatenate([nearest for nearest, _ in layers]))
    depth = hits.depth.take(seen)
    up = np.float32(camera.height) - camera.drops[:, None] * depth
    there = ((seen >= 0) & (up >= 0)).ravel().nonzero()[0]
    seen, up = seen.take(there), up.take(there)
    east, north = camera.rays
    facing = np.where(hits.sideways, np.where(east > 0, WEST, EAST)[hits.column], np.where(north > 0, SOUTH, NORTH)[hits.column])
    frame.mask[there], frame.depth[there] = BUILDING, depth.take(there)
    frame.facing[there] = facing.astype(np.uint8).take(seen)
    _paint(frame, town, hits, there, seen, up)


def _near(camera: Camera, houses: Houses) -> NDArray[np.int64]:
    """Houses that may be in the picture."""
    right, ahead = camera.view(*houses.middle)
    reach, edge = houses.reach, float(camera.slopes[-1])
    inside = np.abs(right) - edge * ahead < reach * np.float32(np.hypot(1, edge))
    return ((ahead > -reach) & (ahead < REACH) & inside).nonzero()[0]


def _meet(camera: Camera, houses: Houses, near: NDArray[np.int64]) -> Hits:
    """All hits in the picture, house by house."""
    sides = houses.sides.take(near, 0)
    first, count = _columns(camera, sides)
    owner, column = np.arange(len(near)).repeat(count), steps(first, count)
    east, north = camera.rays
    ray_east, ray_north = east.take(column), north.take(column)
    edges = sides.T - np.array([camera.east, camera.east, camera.north, camera.north], np.float32)[:, None]
    one, two, three, four = edges.take(owner, 1)
    one, two, three, four = one / ray_east, two / ray_east, three / ray_north, four / ray_north
    enter_east, enter_north = np.minimum(one, two), np.minimum(three, four)
    leave = np.minimum(np.maximum(one, two), np.maximum(three, four))
    depth = np.maximum(enter_east, enter_north)
    hit = ((leave >= depth) & (depth >= 0.2)).nonzero()[0]
    owner, column, depth = owner.take(hit), column.take(hit), depth.take(hit)
    sideways = (enter_east > enter_north).take(hit)
    start_east, start_north = sides[:, 0].take(owner), sides[:, 2].take(owner)
    along = np.where(
        sideways, camera.north + depth * ray_north.take(hit) - start_north,
        camera.east + depth * ray_east.take(hit) - start_east,
    )  # fmt: skip
    wide = np.where(sideways, (sides[:, 3] - sides[:, 2]).take(owner), (sides[:, 1] - sides[:, 0]).take(owner))
    house = near.take(owner)
    peak = houses.gable.take(house) * (1 - np.abs(2 * along / wide - 1))
    high = houses.height.take(house) + peak - camera.height
    top = np.float32(camera.horizon) - camera.focal * high / depth
    return Hits(column, house, depth, top, sideways, along, wide)


def _columns(camera: Camera, sides: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """In which columns houses can be: the first and how many, a little more than there are at both ends."""
    right, ahead = camera.view(sides[:, [0, 0, 1, 1]].T, sides[:, [2, 3, 2, 3]].T)
    column = camera.width / 2 + camera.focal * right / np.maximum(ahead, 1)
    whole, slack = ahead.min(0) < 1, 1 + camera.focal * 1e-3
    first = np.where(whole, 0, column.min(0) - slack).clip(0, camera.width).astype(np.int64)
    last = np.where(whole, camera.width, column.max(0) + slack + 1).clip(0, camera.width).astype(np.int64)
    return first, last - first


def _peel(camera: Camera, hits: Hits) -> list[tuple[NDArray[np.int64], Array]]:
    """Layers from near to far: for each column the hit and the row of its top, infinite where there is none."""
    skyline, layers = np.full(camera.width, camera.rows, np.float32), []
    column, depth, top = hits.column, hits.depth, hits.top
    left = np.arange(len(column))
    for _ in range(MOST):
        higher = (top < skyline.take(column)).nonzero()[0]
        if len(higher) == 0:
            break
        left, column, depth, top = (part.take(higher) for part in (left, column, depth, top))
        nearest, number, row = np.full(camera.width, np.inf, np.float32), np.zeros(camera.width, np.int64), np.full(camera.width, np.inf, np.float32)
        np.minimum.at(nearest, column, depth)
        first = (depth == nearest.take(column)).nonzero()[0][::-1]  # of two as near the first stays
        number[column[first]], row[column[first]] = left[first], top[first]
        layers.append((number, row))
        skyline = np.minimum(skyline, row)
    return layers


def _paint(
    frame: Frame, town: Town, hits: Hits, there: NDArray[np.int64], seen: NDArray[np.int64], up: Array
) -> None:
    """Walls with windows between bands, and roofs. All that does not depend on the height is worked out hit by hit."""
    style, houses, focal = town.style, town.houses, frame.camera.focal
    pitch, share_wide, share_high = style.windows
    house = hits.house.take(seen)
    fields = np.maximum(np.rint(hits.wide / pitch), 1)
    field = hits.along / hits.wide * fields
    column = np.floor(field)
    fade = _blur(frame.camera, hits) * fields / hits.wide + 0.02
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
    wall = houses.colours.take(house + roof * len(houses.height), 1) * np.where(roof, dirt, dirt * low)
    wall += (houses.trims.take(house, 1) - wall) * np.maximum(frame_of, band * np.float32(0.85))
    lucky = hashed(house, floor.astype(np.int32), column.astype(np.int32).take(seen))
    shine = 0.65 + 0.6 * lucky + 0.25 * (storey - floor)
    wall += (shades((style.glass,)).T * shine - wall) * glass
    frame.paint(there, wall)
    if frame.glow is not None:
        frame.glow[there] = glass * np.where(shop, 0.9, (lucky < 0.4) * (0.45 + 1.3 * lucky))


def _blur(camera: Camera, hits: Hits) -> Array:
    """How much of a wall a pixel sees from left to right, in metres."""
    east, north = camera.rays
    slant = np.where(hits.sideways, east.take(hits.column), north.take(hits.column))
    return np.asarray(hits.depth / camera.focal / np.abs(slant))


def _soft(inside: Array, width: Array) -> Array:
    """1 inside, 0 outside, and in between for a pixel that is wider than the edge."""
    return np.asarray((inside / width + 0.5).clip(0, 1))
