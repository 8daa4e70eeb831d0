"""Which house is seen where, and how its walls look.

A ray of the camera goes over the ground into one direction for all pixels of a column. It meets boxes in some order;
each is seen above those before it. So for each column the boxes are peeled off from near to far, as long as one rises
above all before it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.camera import Array
from fedflat.data.street.frame import BUILDING, EAST, NORTH, SOUTH, WEST, Frame, hashed, rough
from fedflat.data.street.town import Town

REACH = 230.0
"""How far houses are seen."""
MOST = 12
"""The most houses behind one another in a column."""


def raise_walls(frame: Frame, town: Town) -> None:
    """Put the houses into a picture."""
    near = _near(frame, town)
    if len(near) == 0:
        return
    camera = frame.camera
    hits = _peel(frame, town, near)
    count = len(hits["depth"])
    if count == 0:
        return
    middles = np.arange(camera.rows, dtype=np.float32)[:, None] + np.float32(0.5)
    seen = np.zeros((camera.rows, camera.width), np.int32)
    for layer in range(count - 1, -1, -1):
        np.copyto(seen, layer + 1, where=middles >= hits["top"][layer])
    column = np.arange(camera.width, dtype=np.int32)
    flat = (seen - 1) * camera.width + column
    depth = hits["depth"].ravel().take(flat, mode="clip")
    up = np.float32(camera.height) - camera.drops[:, None] * depth
    there = np.flatnonzero((seen > 0) & (up >= 0))
    if len(there) == 0:
        return
    flat, depth, up = flat.ravel()[there], depth.ravel()[there], up.ravel()[there]
    frame.mask.ravel()[there] = BUILDING
    frame.depth.ravel()[there] = depth
    frame.facing.ravel()[there] = hits["facing"].ravel()[flat]
    _paint(frame, town, hits, there, flat, depth, up)


def _near(frame: Frame, town: Town) -> NDArray[np.int64]:
    """Houses that may be in the picture."""
    camera, sides = frame.camera, town.houses.sides
    right, ahead = camera.view((sides[:, 0] + sides[:, 1]) / 2, (sides[:, 2] + sides[:, 3]) / 2)
    reach = np.hypot(sides[:, 1] - sides[:, 0], sides[:, 3] - sides[:, 2]) / 2
    edge = float(camera.slopes[-1])
    inside = np.abs(right) - edge * ahead < reach * np.float32(np.hypot(1, edge))
    return np.flatnonzero((ahead > -reach) & (ahead < REACH) & inside)


def _peel(frame: Frame, town: Town, near: NDArray[np.int64]) -> dict[str, Array]:
    """For each layer and column: the house, its depth and top row, and where on which of its walls the ray ends."""
    camera, houses = frame.camera, town.houses
    west, east, south, north = houses.sides[near].T
    ray_east, ray_north = (ray[:, None] for ray in camera.rays)
    one, two = (west - camera.east) / ray_east, (east - camera.east) / ray_east
    enter_east, leave = np.minimum(one, two), np.maximum(one, two)
    one, two = (south - camera.north) / ray_north, (north - camera.north) / ray_north
    enter_north = np.minimum(one, two)
    leave = np.minimum(leave, np.maximum(one, two))
    depth = np.maximum(enter_east, enter_north).astype(np.float32)
    sideways = enter_east > enter_north
    along = np.where(sideways, camera.north + depth * ray_north - south, camera.east + depth * ray_east - west)
    wide = np.where(sideways, north - south, east - west)
    peak = houses.gable[near] * (1 - np.abs(2 * along / wide - 1))
    depth[(leave < depth) | (depth < 0.2)] = np.inf
    top = np.float32(camera.horizon) - camera.focal * (houses.height[near] + peak - camera.height) / depth
    columns = np.arange(camera.width)
    skyline = np.full(camera.width, camera.rows, np.float32)
    layers = []
    depth[top >= skyline[:, None]] = np.inf
    left = depth.copy()
    for _ in range(MOST):
        first = left.argmin(1)
        there = np.isfinite(left[columns, first])
        if not there.any():
            break
        layers.append((first, np.where(there, top[columns, first], np.inf)))
        skyline = np.minimum(skyline, layers[-1][1])
        left[top >= skyline[:, None]] = np.inf
    first = np.array([layer[0] for layer in layers], np.int64).reshape(-1, camera.width)
    sideways, depth = sideways[columns, first], depth[columns, first]
    ray_east, ray_north = camera.rays
    east_side, north_side = np.where(ray_east > 0, WEST, EAST), np.where(ray_north > 0, SOUTH, NORTH)
    return {
        "house": near[first], "depth": depth, "along": along[columns, first], "wide": wide[columns, first],
        "top": np.array([layer[1] for layer in layers], np.float32).reshape(-1, camera.width),
        "facing": np.where(sideways, east_side, north_side).astype(np.uint8),
        "blur": depth / camera.focal / np.abs(np.where(sideways, ray_east, ray_north)),
    }  # fmt: skip


def _paint(
    frame: Frame, town: Town, hits: dict[str, Array], there: NDArray[np.int64], flat: NDArray[np.int64],
    depth: Array, up: Array,
) -> None:
    style, houses, focal = town.style, town.houses, frame.camera.focal
    pitch, share_wide, share_high = style.windows
    house = hits["house"].ravel()[flat]
    along, wide, blur = (hits[name].ravel()[flat].astype(np.float32) for name in ("along", "wide", "blur"))
    fields = np.maximum(np.rint(wide / pitch), 1)
    field = along / wide * fields
    storey = (up - 0.25) / style.storey
    column, floor = np.floor(field), np.floor(storey)
    shop = houses.shop[house] & (floor == 0)
    eaves = houses.height[house]
    half_wide = np.where(shop, 0.44, share_wide / 2).astype(np.float32)
    half_high = np.where(shop, 0.36, share_high / 2).astype(np.float32)
    fade = blur * fields / wide + 0.02
    rise = depth / (focal * style.storey) + 0.02
    off_wide, off_high = np.abs(field - column - 0.5), np.abs(storey - floor - 0.5)
    glass = _soft(half_wide - off_wide, fade) * _soft(half_high - off_high, rise)
    frame_of = _soft(half_wide + 0.07 - off_wide, fade) * _soft(half_high + 0.06 - off_high, rise)
    inside = (up < eaves - 0.5) & (up > 0.25)
    glass, frame_of = glass * inside, frame_of * inside
    dirt = 0.86 + 0.28 * rough(along * 6 + (house % 64 * 31).astype(np.float32), up * 5)
    low = 0.82 + 0.18 * np.minimum(up / 3.0, 1)
    wall = houses.wall[house] * (dirt * low)[:, None]
    roof = up > eaves
    wall[roof] = houses.roof[house[roof]] * dirt[roof, None]
    band = ((up > eaves - 0.5) & ~roof) | (shop & (up > style.storey - 0.45)) | (up < 0.5)
    trim = houses.trim[house]
    wall += (trim - wall) * np.maximum(frame_of, band * np.float32(0.85))[:, None]
    lucky = hashed(house, floor.astype(np.int64), column.astype(np.int64))
    pane = np.array(style.glass, np.float32) / 255
    shine = (0.65 + 0.6 * lucky + 0.25 * (storey - floor))[:, None]
    wall += (pane * shine - wall) * glass[:, None]
    frame.colour.reshape(-1, 3)[there] = wall
    if frame.glow is not None:
        lit = glass * np.where(shop, 0.9, (lucky < 0.4) * (0.45 + 1.3 * lucky))
        frame.glow.reshape(-1, 3)[there] = lit[:, None] * np.array([1.0, 0.78, 0.42], np.float32)


def _soft(inside: Array, width: Array) -> Array:
    """1 inside, 0 outside, and in between for a pixel that is wider than the edge."""
    return np.asarray(np.clip(inside / width + 0.5, 0, 1))
