"""Cars: a body and a cabin, boxes along the street, cast like houses but seen from above."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.camera import Array, Camera
from fedflat.data.street.fragments import Fragments, Painted, cut, darken
from fedflat.data.street.frame import CAR, EAST, NORTH, ROUND, SOUTH, UP, WEST, Frame
from fedflat.data.street.traffic import FAR, Cars

GLASS, TYRE = np.array([0.16, 0.2, 0.26], np.float32), np.array([0.07, 0.07, 0.08], np.float32)
FRONT, BACK = np.array([0.93, 0.93, 0.9], np.float32), np.array([0.72, 0.06, 0.06], np.float32)
FLOOR, WAIST = 0.18, 0.86
"""How high a body begins and ends."""


@dataclass(frozen=True)
class Boxes:
    """Boxes along the streets, one a row."""

    place: Array
    half: Array
    front: Array
    low: Array
    high: Array

    @cached_property
    def length(self) -> Array:
        """Half of it, from the middle to the front."""
        return np.asarray((self.half * np.abs(self.front)).sum(1))

    @cached_property
    def width(self) -> Array:
        """Half of it."""
        return np.asarray((self.half * (1 - np.abs(self.front))).sum(1))


class Met(NamedTuple):
    """Where the ray of each pixel meets a box."""

    depth: Array
    """Infinite where it does not."""
    lid: NDArray[np.bool_]
    """Whether it is the top of the box."""
    share: Array
    """How high on the side, from 0 to 1."""
    forth: Array
    """How far to the front, from -1 to 1."""
    aside: Array
    end: NDArray[np.bool_]
    """Whether it is the front or the back."""
    facing: NDArray[np.uint8]


def in_sight(camera: Camera, cars: Cars) -> Cars:
    """The cars in the picture."""
    right, ahead = camera.view(cars.place[:, 0], cars.place[:, 1])
    return cars.at(np.flatnonzero((ahead > 3.5) & (ahead < FAR) & (np.abs(right) < camera.slopes[-1] * ahead + 2.6)))


def draw(frame: Frame, cars: Cars) -> Painted:
    """The pixels of all cars before what is in the picture; the ground below them is darkened."""
    pixels = _pixels(frame, cars)
    _shadow(frame, pixels, cars)
    van = cars.tall > 1.8
    waist = np.where(van, np.float32(WAIST + 0.3), np.float32(WAIST))
    along = np.abs(cars.front)
    shorter = cars.half * (1 - along * np.where(van, 0.2, 0.42)[:, None]) - 0.1 * (1 - along)
    back = cars.place - cars.front * cars.half * np.where(van, 0.16, 0.1)[:, None]
    place, half = np.concatenate([cars.place, back]), np.concatenate([cars.half, shorter]).astype(np.float32)
    low, high = np.concatenate([np.full_like(waist, FLOOR), waist]), np.concatenate([waist, cars.tall])
    boxes = Boxes(place, half, np.concatenate([cars.front, cars.front]), low, high)
    met = _meet(frame.camera, pixels, boxes)
    body, cabin = (Met(*parts) for parts in zip(*(np.split(part, 2) for part in met), strict=True))
    upper, depth = cabin.depth < body.depth, np.minimum(body.depth, cabin.depth)
    seen = np.flatnonzero(depth < frame.depth.ravel()[pixels.place])
    tint = cars.tint[pixels.owner[seen]]
    colour = np.where(upper[seen, None], _upper(cabin, tint, seen), _lower(body, tint, seen))
    facing = np.where(upper, cabin.facing, body.facing)[seen]
    return Painted(pixels.place[seen], depth[seen], np.full(len(seen), CAR, np.uint8), colour, facing)


def _meet(camera: Camera, pixels: Fragments, boxes: Boxes) -> Met:
    """What pixels see of the bodies of their cars, then, in the same rows, of the cabins."""
    count = len(boxes.low) // 2
    owner = np.concatenate([pixels.owner, pixels.owner + count])
    column, row = np.tile(pixels.column, 2), np.tile(pixels.row, 2)
    ray_east, ray_north, drop = camera.rays[0][column], camera.rays[1][column], camera.drops[row]
    east, north = ((boxes.place - np.array([camera.east, camera.north], np.float32))[owner, axis] for axis in (0, 1))
    ahead_east, ahead_north = east / ray_east, north / ray_north
    deep_east, deep_north = np.abs(boxes.half[owner, 0] / ray_east), np.abs(boxes.half[owner, 1] / ray_north)
    enter_east, enter_north = ahead_east - deep_east, ahead_north - deep_north
    enter = np.maximum(enter_east, enter_north)
    leave = np.minimum(ahead_east + deep_east, ahead_north + deep_north)
    sideways = enter_east > enter_north
    hit = (enter < leave) & (enter > 0.3)
    low, high, front = boxes.low[owner], boxes.high[owner], boxes.front[owner]
    up = camera.height - drop * enter
    lid_depth = (camera.height - high) / np.maximum(drop, 1e-6)
    lid = hit & (up > high) & (lid_depth > enter) & (lid_depth <= leave)
    east, north = enter * ray_east - east, enter * ray_north - north
    forth = (east * front[:, 0] + north * front[:, 1]) / boxes.length[owner]
    aside = (north * front[:, 0] - east * front[:, 1]) / boxes.width[owner]
    end = sideways == (front[:, 0] != 0)
    wheel = ~end & (np.hypot((np.abs(forth) - 0.62) * boxes.length[owner], up - 0.32) < 0.32) & (up >= 0)
    wheel[len(pixels) :] = False
    standing = hit & (((up >= low) & (up <= high)) | wheel)
    depth = np.where(standing, enter, np.where(lid, lid_depth, np.float32(np.inf)))
    side = np.where(sideways, np.where(ray_east > 0, WEST, EAST), np.where(ray_north > 0, SOUTH, NORTH))
    facing = np.where(lid, ROUND, side).astype(np.uint8)
    return Met(depth, lid, (up - low) / (high - low), forth, aside, end, facing)


def _shadow(frame: Frame, pixels: Fragments, cars: Cars) -> None:
    pixels = pixels.only(frame.facing.ravel()[pixels.place] == UP)
    camera, owner = frame.camera, pixels.owner
    depth = camera.height / camera.drops[pixels.row]
    east = camera.east + depth * camera.rays[0][pixels.column] - cars.place[owner, 0]
    north = camera.north + depth * camera.rays[1][pixels.column] - cars.place[owner, 1]
    half = cars.half[owner] + 0.25
    under = (np.abs(east) < half[:, 0]) & (np.abs(north) < half[:, 1])
    darken(frame, pixels, under * np.float32(0.6))


def _lower(body: Met, tint: Array, seen: NDArray[np.int64]) -> Array:
    """Painted metal, lamps, bumpers and wheels."""
    parts = body.share, body.forth, body.aside, body.end, body.lid
    share, forth, aside, end, lid = (part[seen] for part in parts)
    colour = tint * np.where(lid, 1.06, 0.76 + 0.24 * share)[:, None].astype(np.float32)
    end = end & ~lid
    colour[end & (share < 0.28)] = 2 * TYRE
    lamp = end & (np.abs(share - 0.66) < 0.17) & (np.abs(aside) > 0.48)
    colour[lamp & (forth > 0)] = FRONT
    colour[lamp & (forth <= 0)] = BACK
    colour[~end & ~lid & (np.hypot((np.abs(forth) - 0.62) * 2.15, share * 0.68 + FLOOR - 0.32) < 0.32)] = TYRE
    return np.asarray(colour)


def _upper(cabin: Met, tint: Array, seen: NDArray[np.int64]) -> Array:
    """Windows between pillars."""
    parts = cabin.share, cabin.forth, cabin.aside, cabin.end, cabin.lid
    share, forth, aside, end, lid = (part[seen] for part in parts)
    pane = (share > 0.1) & (share < 0.85) & ~lid
    pane &= np.where(end, np.abs(aside) < 0.88, (np.abs(forth) < 0.92) & (np.abs(forth + 0.05) > 0.05))
    painted = tint * np.where(lid, 1.06, 0.95)[:, None]
    return np.where(pane[:, None], GLASS * (0.8 + 0.9 * share[:, None]), painted).astype(np.float32)


def lamps(frame: Frame, cars: Cars) -> None:
    """Two lights at the end that is seen, white in front and red behind."""
    camera = frame.camera
    away = np.array([camera.east, camera.north], np.float32) - cars.place
    ahead = (away * cars.front).sum(1) > 0
    end = cars.place + cars.front * cars.half * np.where(ahead, 1, -1)[:, None]
    across = cars.half * (1 - np.abs(cars.front)) * 0.72
    for spots in (end - across, end + across):
        right, depth = camera.view(spots[:, 0], spots[:, 1])
        scale = camera.focal / np.maximum(depth, 0.3)
        columns, rows = camera.width / 2 + scale * right, camera.horizon + scale * (camera.height - 0.62)
        for spot in zip(columns.tolist(), rows.tolist(), depth.tolist(), scale.tolist(), ahead.tolist(), strict=True):
            column, row, far, size, white = spot
            light = (1.0, 0.94, 0.8) if white else (0.95, 0.08, 0.05)
            frame.shine(column, row, far - 0.8, size * (0.7 if white else 0.4), light)


def _pixels(frame: Frame, cars: Cars) -> Fragments:
    """The rectangles around cars and their shadows."""
    camera = frame.camera
    corners = np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)], np.float32)[:, None] * (cars.half + 0.3) + cars.place
    right, ahead = camera.view(corners[..., 0], corners[..., 1])
    scale = np.float32(camera.focal) / np.maximum(ahead, 0.3)
    columns = camera.width / 2 + right * scale
    near, far = scale.max(0), scale.min(0)
    over = camera.height - cars.tall
    top = camera.horizon + over * np.where(over > 0, far, near)
    return cut(columns.min(0), columns.max(0), top, camera.horizon + camera.height * near, frame.mask.shape)
