"""Cars: a body and a cabin as boxes along the street, ray-cast like houses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.frame import (
    CAR,
    EAST,
    NORTH,
    ROUND,
    SOUTH,
    UP,
    WEST,
    Array,
    Fragments,
    Index,
    Painted,
    Shots,
    StreetFrame,
    cut,
    darken,
)
from fedflat.data.street.traffic import FAR, Cars

GLASS, TYRE = np.array([0.16, 0.2, 0.26], np.float32), np.array([0.07, 0.07, 0.08], np.float32)
FRONT, BACK = np.array([0.93, 0.93, 0.9], np.float32), np.array([0.72, 0.06, 0.06], np.float32)
LIGHTS = np.array([[1.0], [0.94], [0.8]]), np.array([[0.95], [0.08], [0.05]])
"""Colours of the lamps in front and behind."""
METAL, BUMPER, WHITE, RED, WHEEL = range(5)
"""Materials of a body; all but the metal have the same colour on all cars."""
FIXED = np.stack([0 * TYRE, 2 * TYRE, FRONT, BACK, TYRE], 1)
FLOOR, WAIST = 0.18, 0.86
"""Lower and upper edge of a body in metres."""


@dataclass(frozen=True)
class Boxes:
    """Intersections of the rays of all columns with bodies and cabins, (2, cars, columns)."""

    hit: NDArray[np.bool_]
    enter: Array
    leave: Array
    forth: Array
    """Position of the entry along the car, from -1 (back) to 1 (front)."""
    aside: Array
    wheel: Array
    """Distance of the entry from the centre of a wheel, in metres."""
    end: NDArray[np.bool_]
    """True if it is the front or the back."""
    facing: NDArray[np.uint8]


@dataclass(frozen=True)
class BoxPixels:
    """Visible pixels of bodies or cabins."""

    share: Array
    """Height on the side, from 0 to 1."""
    forth: Array
    aside: Array
    end: NDArray[np.bool_]
    lid: NDArray[np.bool_]
    """True if it is the top of the box."""
    tint: Array


def in_sight(shots: Shots, cars: Cars, shot: Index) -> tuple[Cars, Index]:
    """The cars in the images and their shots; each car is in one shot only."""
    right, ahead = shots.view(shot, cars.place[:, 0], cars.place[:, 1])
    visible = (ahead > 3.5) & (ahead < FAR) & (np.abs(right) < shots.slopes[-1] * ahead + 2.6)
    return cars.at(visible.nonzero()[0]), shot[visible]


def draw(frame: StreetFrame, cars: Cars, shot: Index) -> Painted:
    """The pixels of all cars in front of other objects; darkens the ground below them."""
    shots, pixels = frame.shots, _pixels(frame.shots, cars, shot)
    _shadow(frame, pixels, cars)
    waist = np.where(cars.tall > 1.8, np.float32(WAIST + 0.3), np.float32(WAIST))
    boxes = _meet(shots, cars, shot)
    which, line, _ = frame.lines(pixels.place)
    ray = pixels.place + (pixels.owner - line) * shots.width
    ray = np.stack([ray, ray + len(waist) * shots.width])
    low, high = np.stack([np.full_like(waist, FLOOR), waist]), np.stack([waist, cars.tall])
    bottom, top = low.take(pixels.owner, 1), high.take(pixels.owner, 1)
    drop, enter, hit = shots.drops.take(line), boxes.enter.take(ray), boxes.hit.take(ray)
    up = shots.exact_height.take(which) - drop * enter
    lid_depth = (shots.height.take(which) - top) / np.maximum(drop, 1e-6)
    lid = hit & (up > top) & (lid_depth > enter) & (lid_depth <= boxes.leave.take(ray))
    side = (up >= bottom) & (up <= top)
    side[0] |= (
        ~boxes.end.take(ray[0])
        & (np.hypot(boxes.wheel.take(ray[0]), up[0] - 0.32) < 0.32)
        & (up[0] >= 0)
    )
    depth = np.where(hit & side, enter, np.where(lid, lid_depth, np.float32(np.inf)))
    nearest = np.minimum(*depth)
    visible = (nearest < frame.depth.take(pixels.place)).nonzero()[0]
    part = (depth[1] < depth[0]).take(visible)
    at = part * len(pixels) + visible  # index of the nearer of the two boxes
    ray, lid, up, bottom, top = (value.take(at) for value in (ray, lid, up, bottom, top))
    pixels_of_box = BoxPixels(
        (up - bottom) / (top - bottom),
        boxes.forth.take(ray),
        boxes.aside.take(ray),
        boxes.end.take(ray),
        lid,
        cars.tint.T.take(pixels.owner.take(visible), 1),
    )
    colour = np.where(part, _cabin(pixels_of_box), _body(pixels_of_box))
    facing = np.where(lid, ROUND, boxes.facing.take(ray)).astype(np.uint8)
    return Painted(pixels.place.take(visible), nearest.take(visible), CAR, colour, facing)


def _meet(shots: Shots, cars: Cars, shot: Index) -> Boxes:
    van, along = cars.tall > 1.8, np.abs(cars.front)
    shorter = cars.half * (1 - along * np.where(van, 0.2, 0.42)[:, None]) - 0.1 * (1 - along)
    back = cars.place - cars.front * cars.half * np.where(van, 0.16, 0.1)[:, None]
    halves = np.stack([cars.half, shorter]).astype(np.float32)
    long, wide = (halves * along).sum(2)[..., None], (halves * (1 - along)).sum(2)[..., None]
    away = np.stack([cars.place, back]) - np.stack([shots.east, shots.north], 1).take(shot, 0)
    east = away[..., :1]
    north = away[..., 1:]
    half_east = halves[..., :1]
    half_north = halves[..., 1:]
    ray_east, ray_north = (part.take(shot, 0) for part in shots.rays)
    ahead_east, ahead_north = east / ray_east, north / ray_north
    deep_east, deep_north = np.abs(half_east / ray_east), np.abs(half_north / ray_north)
    enter_east, enter_north = ahead_east - deep_east, ahead_north - deep_north
    enter = np.maximum(enter_east, enter_north)
    leave = np.minimum(ahead_east + deep_east, ahead_north + deep_north)
    sideways = enter_east > enter_north
    to_east, to_north = cars.front[:, :1], cars.front[:, 1:]
    east, north = enter * ray_east - east, enter * ray_north - north
    forth = (east * to_east + north * to_north) / long
    facing = np.where(
        sideways, np.where(ray_east > 0, WEST, EAST), np.where(ray_north > 0, SOUTH, NORTH)
    )
    return Boxes(
        (enter < leave) & (enter > 0.3),
        enter,
        leave,
        forth,
        (north * to_east - east * to_north) / wide,
        (np.abs(forth) - 0.62) * long,
        sideways == (to_east != 0),
        facing,
    )


def _shadow(frame: StreetFrame, pixels: Fragments, cars: Cars) -> None:
    pixels = pixels.only(frame.facing.take(pixels.place) == UP)
    shots, owner, (shot, line, ray) = frame.shots, pixels.owner, frame.lines(pixels.place)
    depth = shots.height.take(shot) / shots.drops.take(line)
    ray_east, ray_north = (part.take(ray) for part in shots.rays)
    east = shots.east.take(shot) + depth * ray_east - cars.place[:, 0].take(owner)
    north = shots.north.take(shot) + depth * ray_north - cars.place[:, 1].take(owner)
    half = (cars.half + 0.25).T.take(owner, 1)
    darken(frame, pixels, ((np.abs(east) < half[0]) & (np.abs(north) < half[1])) * np.float32(0.6))


def _body(pixels_of_box: BoxPixels) -> Array:
    """Metal, lamps, bumpers and wheels."""
    share, forth, lid = pixels_of_box.share, pixels_of_box.forth, pixels_of_box.lid
    end = pixels_of_box.end & ~lid
    lamp = end & (np.abs(share - 0.66) < 0.17) & (np.abs(pixels_of_box.aside) > 0.48)
    wheel = (
        ~end & ~lid & (np.hypot((np.abs(forth) - 0.62) * 2.15, share * 0.68 + FLOOR - 0.32) < 0.32)
    )
    what = np.where(end & (share < 0.28), BUMPER, METAL)
    what[lamp] = np.where(forth > 0, WHITE, RED)[lamp]
    what[wheel] = WHEEL
    metal = pixels_of_box.tint * np.where(lid, 1.06, 0.76 + 0.24 * share).astype(np.float32)
    return np.where(what, FIXED.take(what, 1), metal)


def _cabin(pixels_of_box: BoxPixels) -> Array:
    """Windows between pillars."""
    share, forth, lid = pixels_of_box.share, pixels_of_box.forth, pixels_of_box.lid
    pane = (share > 0.1) & (share < 0.85) & ~lid
    pane &= np.where(
        pixels_of_box.end,
        np.abs(pixels_of_box.aside) < 0.88,
        (np.abs(forth) < 0.92) & (np.abs(forth + 0.05) > 0.05),
    )
    painted = pixels_of_box.tint * np.where(lid, 1.06, 0.95)
    return np.where(pane, GLASS[:, None] * (0.8 + 0.9 * share), painted).astype(np.float32)


def lamps(frame: StreetFrame, cars: Cars, shot: Index) -> None:
    """Two lights at the visible end, white in front and red behind."""
    shots = frame.shots
    away = np.stack([shots.east, shots.north], 1).take(shot, 0) - cars.place
    ahead = (away * cars.front).sum(1) > 0
    end = cars.place + cars.front * cars.half * np.where(ahead, 1, -1)[:, None]
    across = cars.half * (1 - np.abs(cars.front)) * 0.72
    wide, light = np.where(ahead, 0.7, 0.4), np.where(ahead, *LIGHTS)
    for spots in (end - across, end + across):
        right, depth = shots.view(shot, spots[:, 0], spots[:, 1])
        scale = shots.focal / np.maximum(depth, 0.3)
        column = shots.width / 2 + scale * right
        row = shots.horizon.take(shot) + scale * (shots.exact_height - 0.62).astype(
            np.float32
        ).take(shot)
        frame.shine(shot, column, row, depth.astype(np.float64) - 0.8, scale * wide, light)


def _pixels(shots: Shots, cars: Cars, shot: Index) -> Fragments:
    """The rectangles around cars and their shadows."""
    corners = (
        np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)], np.float32)[:, None] * (cars.half + 0.3)
        + cars.place
    )
    right, ahead = shots.view(shot, corners[..., 0], corners[..., 1])
    scale = np.float32(shots.focal) / np.maximum(ahead, 0.3)
    columns = shots.width / 2 + right * scale
    near, far = scale.max(0), scale.min(0)
    height, horizon = shots.height.take(shot), shots.horizon.take(shot)
    over = height - cars.tall
    top = horizon + over * np.where(over > 0, far, near)
    return cut(shots, shot, columns.min(0), columns.max(0), top, horizon + height * near)
