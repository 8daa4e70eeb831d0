"""Houses with the look of their walls, and the ground: roads, kerbs, pavements, lawns, hills.

All rays of an image column go over the ground in one direction. They hit boxes in some order; each
box is visible above those before it. So for each column the boxes are processed from near to far,
as long as one rises above all before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.frame import (
    BUILDING,
    EAST,
    GREEN,
    NORTH,
    PAVEMENT,
    ROAD,
    SKY,
    SOUTH,
    UP,
    WEST,
    Array,
    Index,
    Shots,
    StreetFrame,
    noise,
    pseudorandom,
    rough,
    steps,
)
from fedflat.data.street.styles import Style, shades
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
        east, north = (part.take(self.ray) > 0 for part in shots.rays)
        facing = np.where(self.sideways, np.where(east, WEST, EAST), np.where(north, SOUTH, NORTH))
        return facing.astype(np.uint8)

    def blur(self, shots: Shots) -> Array:
        """Horizontal width of a pixel on the wall, in metres."""
        east, north = (part.take(self.ray) for part in shots.rays)
        return np.asarray(self.depth / shots.focal / np.abs(np.where(self.sideways, east, north)))


def raise_walls(frame: StreetFrame, town: Town) -> None:
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
    middle = houses.middle.take(around, 0)
    reach = houses.reach.take(around)
    edge = float(shots.slopes[-1])
    right, ahead = shots.view(np.arange(shots.count)[:, None], middle[:, 0], middle[:, 1])
    inside = np.abs(right) - edge * ahead < reach * np.float32(np.hypot(1, edge))
    shot, house = ((ahead > -reach) & (ahead < REACH) & inside).nonzero()
    return shot, around.take(house)


def _meet(shots: Shots, houses: Houses) -> WallHits:
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
        left = left.take(higher)
        ray = ray.take(higher)
        depth = depth.take(higher)
        top = top.take(higher)
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
    east = shots.east.take(shot) + depth * ray_east
    north = shots.north.take(shot) + depth * ray_north
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
    for plane, part in zip(colour, tone, strict=True):
        bare = plane.take(place)
        plane[place] = bare + (part - bare) * share


def _cover(inside: Array, half: float, pixel: Array) -> Array:
    """The share of a pixel that a line of this half width covers."""
    return np.asarray((inside / pixel + 0.5).clip(0, 1) * np.minimum(1, 2 * half / pixel))
