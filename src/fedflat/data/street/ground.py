"""The ground: roads with their marks, kerbs, pavements, lawns, and hills where it ends."""

from __future__ import annotations

import numpy as np

from fedflat.data.street.camera import Array
from fedflat.data.street.frame import GREEN, PAVEMENT, ROAD, UP, Frame, noise, rough
from fedflat.data.street.town import Town

EDGE = 400.0
"""Where the ground meets the hills."""


def lay_ground(frame: Frame, town: Town) -> tuple[slice, Array, Array] | None:
    """Fill all below the horizon; hands back those rows and each pixel's place."""
    camera, style = frame.camera, town.style
    _hills(frame, town)
    first = int(np.searchsorted(camera.drops, camera.height / EDGE))
    if first >= camera.rows:
        return None
    rows = slice(first, camera.rows)
    depth = np.broadcast_to((camera.height / camera.drops[rows])[:, None], (camera.rows - first, camera.width))
    east, north = (start + depth * ray for start, ray in zip((camera.east, camera.north), camera.rays, strict=True))
    off_east, off_north = town.street(0, east), town.street(1, north)
    far_east, far_north = np.abs(off_east), np.abs(off_north)
    off = np.minimum(far_east, far_north)
    walk = style.road + style.verge
    road, paved = off < style.road, (off >= walk) & (off < walk + style.pavement)
    bare = style.setback < 1
    yard = (off >= walk + style.pavement) & ~_parks(town, east, north) if bare else np.zeros_like(road)
    frame.mask[rows] = np.where(road, ROAD, np.where(paved | yard, PAVEMENT, GREEN))
    frame.depth[rows], frame.facing[rows] = depth, UP
    grain = rough(east * 9, north * 9)
    patches = rough(east * 1.3, north * 1.3)
    tones = np.array([style.lawn, style.flags, style.asphalt], np.float32) / 255
    kind = np.where(road, 2, np.where(paved | yard, 1, 0))
    strength = 0.72 + 0.34 * grain + 0.26 * patches
    colour = tones[kind] * strength[..., None]
    _marks(colour, town, depth / camera.focal, off_east, off_north, road)
    flags = np.minimum(np.abs(east % 1.5 - 0.75), np.abs(north % 1.5 - 0.75)) > 0.71
    colour[flags & paved & (depth < 18)] *= 0.86
    kerb = np.abs(off - style.road - 0.12) < np.maximum(0.14, depth / camera.focal * 0.4)
    colour[kerb & (depth < 60)] = np.float32(0.72)
    frame.colour[rows] = colour
    return rows, east, north


def _hills(frame: Frame, town: Town) -> None:
    """Green hills behind everything, by direction only."""
    camera = frame.camera
    angle = np.degrees(np.arctan(camera.slopes)) + np.float32(camera.heading)
    tile = noise()[(town.number * 37) & 255]
    high = np.float32(0.012) + np.float32(0.055) * np.interp(angle % 360 / 360 * 256, np.arange(257), [*tile, tile[0]])
    there = (-camera.drops[:, None] < high) & (camera.drops[:, None] < camera.height / EDGE)
    frame.mask[there], frame.depth[there] = GREEN, EDGE
    frame.colour[there] = np.array([0.32, 0.42, 0.34], np.float32)


def _parks(town: Town, east: Array, north: Array) -> Array:
    columns = np.clip(np.searchsorted(town.lines[0], east) - 1, 0, town.parks.shape[1] - 1)
    rows = np.clip(np.searchsorted(town.lines[1], north) - 1, 0, town.parks.shape[0] - 1)
    return np.asarray(town.parks[rows, columns])


def _marks(colour: Array, town: Town, pixel: Array, off_east: Array, off_north: Array, road: Array) -> None:
    """The lines in the middle and the crossings; paint covers as much of a pixel as it lies in."""
    style = town.style
    far_east, far_north = np.abs(off_east), np.abs(off_north)
    upright = far_east < far_north
    across, along = np.where(upright, far_east, far_north), np.where(upright, off_north, off_east)
    past = np.abs(along) - style.road
    clear = road & (past > 0)
    if style.solid:
        middle = _cover(0.07 - np.abs(across - 0.16), 0.07, pixel)
        lanes = _cover(0.06 - np.abs(across - style.road / 2), 0.06, pixel) * (along % 6 < 2.5)
    else:
        middle = _cover(0.07 - across, 0.07, pixel) * (along % 6 < 3)
        lanes = _cover(0.05 - np.abs(across - style.road + 0.35), 0.05, pixel) * np.float32(0.7)
    crossing = (past > 0.9) & (past < 3.4) & (across % 1.1 < 0.55) & (across < style.road - 0.3)
    stop = (past > 4.0) & (past < 4.4) & (across < style.road - 0.3)
    white = np.where(crossing | stop, np.float32(0.9), lanes * (past > 4.4)) * clear
    paint = np.array([0.86, 0.86, 0.84], np.float32)
    colour += (paint - colour) * white[..., None]
    middle = middle * (clear & (past > 4.4))
    colour += (np.array(style.centre, np.float32) / 255 - colour) * middle[..., None]


def _cover(inside: Array, half: float, pixel: Array) -> Array:
    """The share of a pixel that a line of this half width covers."""
    return np.asarray(np.clip(inside / pixel + 0.5, 0, 1) * np.minimum(1, 2 * half / pixel))
