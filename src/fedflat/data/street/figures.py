"""Trees, lamps, signs, traffic lights and people: upright figures that face the camera.

``a`` goes from -1 at the left edge to 1 at the right edge of a figure, ``b`` from 0 at its foot to
1 at its top. A figure is drawn in parts, each over the parts before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.frame import (
    BOARD,
    GREEN,
    HUMAN,
    NOTHING,
    POLE,
    ROUND,
    UP,
    Array,
    Index,
    Painted,
    Shots,
    StreetFrame,
    cut,
    darken,
    rough,
)
from fedflat.data.street.town import FIR, LAMP, LIGHTS, PALM, PERSON, POPLAR, SIGN, TREE, Figures

REACH = 110.0
BARK, STEEL = np.array([0.34, 0.26, 0.2], np.float32), np.array([0.42, 0.43, 0.45], np.float32)
WHITE = np.array([0.93, 0.93, 0.93], np.float32)


@dataclass(frozen=True)
class FigureView:
    """The figures in a batch of images."""

    shot: Index
    kind: Index
    column: Array
    foot: Array
    tall: Array
    half: Array
    depth: Array
    tint: Array
    """RGB in three rows."""
    own: Index
    turn: Array
    """How far a lamp's arm reaches to the right, from -1 to 1."""

    @property
    def pixel(self) -> Array:
        """Half a pixel in units of ``a``."""
        return 0.5 / self.half


Part = tuple[NDArray[np.bool_], Array, int]
"""A mask of pixels, their colour (one, or one per pixel), and their class."""


def in_sight(shots: Shots, fixed: Figures, people: Figures, people_shot: Index) -> FigureView:
    """The figures in the images that are large enough; each person is in one shot only."""
    around = shots.around(fixed.place, REACH + float(fixed.half.max(initial=0)))
    fixed = fixed.at(around)
    shot, chosen = _visible(shots, np.arange(shots.count)[:, None], fixed).nonzero()
    visible_people = _visible(shots, people_shot, people).nonzero()[0]
    shot = np.concatenate([shot, people_shot[visible_people]])
    figures = Figures.concatenate([fixed.at(chosen), people.at(visible_people)])
    right, ahead = shots.view(shot, figures.place[:, 0], figures.place[:, 1])
    scale = np.float32(shots.focal) / ahead
    turn = shots.rightward(shot, figures.toward[:, 0], figures.toward[:, 1])
    column = shots.width / 2 + right * scale
    foot = shots.horizon.take(shot) + shots.height.take(shot) * scale
    tall = figures.height * scale
    half = figures.half * scale
    tint = np.ascontiguousarray(figures.tint.T)
    return FigureView(shot, figures.kind, column, foot, tall, half, ahead, tint, figures.own, turn)


def _visible(shots: Shots, shot: Index, figures: Figures) -> NDArray[np.bool_]:
    right, ahead = shots.view(shot, figures.place[:, 0], figures.place[:, 1])
    inside = np.abs(right) < shots.slopes[-1] * ahead + figures.half
    large = figures.height * shots.focal > np.where(figures.kind >= TREE, 1.5, 3.0) * ahead
    return np.asarray(inside & large & (ahead > 0.8) & (ahead < REACH))


def draw(frame: StreetFrame, sight: FigureView) -> Painted:
    """The pixels of all figures in front of other objects."""
    left, right, top = sight.column - sight.half, sight.column + sight.half, sight.foot - sight.tall
    pixels = cut(frame.shots, sight.shot, left, right, top, sight.foot)
    pixels = pixels.only(sight.depth.take(pixels.owner) < frame.depth.take(pixels.place))
    owner, (row, column) = pixels.owner, frame.pixel(pixels.place)
    a = (
        column.astype(np.float32) + (np.float32(0.5) - sight.column).take(owner)
    ) / sight.half.take(owner)
    b = ((sight.foot - np.float32(0.5)).take(owner) - row.astype(np.float32)) / sight.tall.take(
        owner
    )
    kinds = np.where((b >= 0) & (b < 1), sight.kind.take(owner), -1)
    kind = np.full(len(pixels), NOTHING, np.uint8)
    colour = np.zeros((3, len(pixels)), np.float32)
    for number in sorted(set(sight.kind.tolist())):
        pixels_of_kind = (kinds == number).nonzero()[0]
        for inside, tint, klass in DRAWN[number](
            a.take(pixels_of_kind), b.take(pixels_of_kind), sight, owner.take(pixels_of_kind)
        ):
            covered = pixels_of_kind.compress(inside)
            kind[covered] = klass
            for plane, part in zip(colour, tint, strict=True):
                plane[covered] = part.compress(inside) if part.ndim else part
    visible = (kind != NOTHING).nonzero()[0]
    return Painted(
        pixels.place[visible],
        sight.depth.take(owner[visible]),
        kind[visible],
        colour.take(visible, 1),
        ROUND,
    )


def shade(frame: StreetFrame, sight: FigureView) -> None:
    """Darken the ground at the feet of figures."""
    near = (sight.depth < 45).nonzero()[0]
    shot, column, foot, half = (
        part.take(near) for part in (sight.shot, sight.column, sight.foot, sight.half)
    )
    wide = np.maximum(
        half * np.where(sight.kind.take(near) >= PERSON, np.float32(0.8), np.float32(0.12)), 0.5
    )
    flat = np.maximum(0.6, wide * frame.shots.height.take(shot) / sight.depth.take(near))
    pixels = cut(frame.shots, shot, column - wide, column + wide, foot - flat, foot + flat)
    pixels = pixels.only(frame.facing.take(pixels.place) == UP)
    owner, (at_row, at_column) = pixels.owner, frame.pixel(pixels.place)
    up = (at_row + np.float32(0.5) - foot.take(owner)) / flat.take(owner)
    out = (at_column + np.float32(0.5) - column.take(owner)) / wide.take(owner)
    darken(frame, pixels, (np.maximum(0, 1 - up * up - out * out) * 0.4).astype(np.float32))


def lamps(frame: StreetFrame, sight: FigureView) -> None:
    """Add the lamps that are lit and not hidden to the frame."""
    lit = ((sight.kind == LAMP) | (sight.kind == LIGHTS)).nonzero()[0]
    parts = (sight.column, sight.foot, sight.tall, sight.half, sight.depth, sight.turn)
    column, foot, tall, half, depth, turn = (part.take(lit).astype(np.float64) for part in parts)
    # Red light, green light, street lamp.
    which = np.where(sight.kind.take(lit) == LAMP, 2, sight.own.take(lit) % 2)
    high, size, light = LAMPS[0].take(which), LAMPS[1].take(which), LAMPS[2:].take(which, 1)
    column = np.where(which == 2, column + 0.8 * turn * half, column)
    frame.shine(sight.shot.take(lit), column, foot - high * tall, depth, size * tall, light)


def _crown(a: Array, b: Array, sight: FigureView, owner: Index, wide: Array) -> list[Part]:
    trunk = (np.abs(a) < np.maximum(0.06, sight.pixel).take(owner)) & (b < 0.5)
    mottle = rough(a * 24 + (sight.own % 7 * 31).take(owner), b * 40)
    crown = (np.abs(a) + (mottle - 0.5) * 0.4 < wide) & (wide > 0)
    light = 0.5 + 0.45 * b - 0.12 * a + 0.7 * (mottle - 0.5)
    return [(trunk, BARK, GREEN), (crown, light * sight.tint.take(owner, 1), GREEN)]


def _tree(a: Array, b: Array, sight: FigureView, owner: Index) -> list[Part]:
    """A round crown with leaves that stick out."""
    shape, up = (sight.own % 7).astype(np.float32).take(owner), (b - 0.64) / 0.36
    bumps = 1 + 0.12 * np.sin(5 * a + shape + 3 * up) + 0.1 * np.sin(9 * up + 2 * shape)
    return _crown(a, b, sight, owner, np.sqrt(np.clip(bumps - up * up, 0, 1)) * (b > 0.26))


def _poplar(a: Array, b: Array, sight: FigureView, owner: Index) -> list[Part]:
    """A spindle."""
    round_off = np.sin(((b - 0.1) / 0.9).clip(0, 1) ** 0.8 * np.pi)
    return _crown(a, b, sight, owner, 0.95 * np.sqrt(round_off.clip(0, 1)))


def _fir(a: Array, b: Array, sight: FigureView, owner: Index) -> list[Part]:
    """Rows of branches."""
    return _crown(a, b, sight, owner, (1 - b) * (0.82 + 0.3 * ((b * 6) % 1 < 0.5)) * (b > 0.12))


def _palm(a: Array, b: Array, sight: FigureView, owner: Index) -> list[Part]:
    lean = (0.12 * np.sin((sight.own % 97).astype(np.float32))).take(owner) * b * b
    trunk = (np.abs(a - lean) < np.maximum(0.055, sight.pixel).take(owner)) & (b < 0.84)
    out, up = np.abs(a - lean), (b - 0.82) / 0.18
    fronds = (
        np.abs(up - 0.75 * np.sin(np.minimum(out * 2.2, 3.1)) + 1.3 * out * out) < 0.34 - 0.18 * out
    )
    fronds |= np.abs(up + 0.5 - 0.9 * np.sin(out * 1.6) + 2.2 * out * out) < 0.3 - 0.3 * out
    fronds |= (np.abs(out - 0.12 * np.maximum(up, 0)) < 0.14) & (up > -0.2) & (up < 0.9)
    light = 0.75 + 0.5 * rough(a * 30, b * 60)
    return [(trunk, BARK * 1.35, GREEN), (fronds, light * sight.tint.take(owner, 1), GREEN)]


def _lamp(a: Array, b: Array, sight: FigureView, owner: Index) -> list[Part]:
    turn = sight.turn.take(owner)
    post = (np.abs(a) < np.maximum(0.05, sight.pixel).take(owner)) & (b < 0.985)
    reach = a * turn
    arm = (reach > 0) & (reach < turn * turn * 0.85)
    arm &= np.abs(b - 0.965) < np.maximum(0.012, 0.5 / sight.tall).take(owner)
    head = (np.abs(a - 0.8 * turn) < 0.24) & (
        np.abs(b - 0.95) < np.maximum(0.02, 0.7 / sight.tall).take(owner)
    )
    return [(post | arm, STEEL, POLE), (head, STEEL * 0.8, POLE)]


SIGNS = np.array(
    [(0.8, 0.1, 0.1), (0.12, 0.3, 0.66), (0.94, 0.76, 0.1), (0.1, 0.45, 0.25)], np.float32
).T.copy()
"""Round with a red rim, square and blue, a yellow diamond, a green board with a name."""


def _sign(a: Array, b: Array, sight: FigureView, owner: Index) -> list[Part]:
    post = (np.abs(a) < np.maximum(0.09, sight.pixel).take(owner)) & (b < 0.9)
    up = (b - 0.85) * (2.9 / 0.42)  # one metre has the same length up and across
    kind = (sight.own % 4).take(owner)
    out, over = np.abs(a), np.abs(up)
    far = np.choose(
        kind,
        (np.hypot(a, up), np.maximum(out, over) * 1.09, out + over, np.maximum(out, over * 2.2)),
    )
    inner = np.choose(
        kind, (far < 0.62, (out < 0.34) & (over < 0.5), out < 0, (over < 0.1) & (out < 0.75))
    )
    return [(post, STEEL, POLE), (far < 1, SIGNS.take(kind, 1), BOARD), (inner, WHITE, BOARD)]


LIT = ((0.83, (1.0, 0.2, 0.12)), (0.17, (0.2, 0.95, 0.45)))
"""Height and colour of the active light: stop, go."""
LAMPS = np.array(
    [(0.74 + 0.26 * place, 0.12, *tint) for place, tint in LIT] + [(0.95, 0.5, 1.0, 0.8, 0.5)]
).T.copy()
"""Height and radius of a lamp's light, relative to the figure's height, and its colour: stop, go,
street lamp."""


def _lights(a: Array, b: Array, sight: FigureView, owner: Index) -> list[Part]:
    post = (np.abs(a) < np.maximum(0.18, sight.pixel).take(owner)) & (b < 0.8)
    box = (np.abs(a) < 0.85) & (b > 0.74)
    which = (sight.own % 2).take(owner)
    place, tint = (np.array(part, np.float32).T.take(which, -1) for part in zip(*LIT, strict=True))
    shown = (np.abs(a) < 0.55) & (np.abs((b - 0.74) / 0.26 - place) < 0.15)
    return [(post, STEEL * 0.6, POLE), (box, WHITE * 0.1, BOARD), (shown, tint, BOARD)]


HAIR = np.array(
    [(0.16, 0.12, 0.1), (0.4, 0.28, 0.16), (0.7, 0.6, 0.42), (0.1, 0.09, 0.09)], np.float32
).T.copy()
SKIN = np.array(
    [(0.92, 0.74, 0.62), (0.72, 0.52, 0.4), (0.46, 0.32, 0.25), (0.86, 0.66, 0.5)], np.float32
).T.copy()
LEGS = np.array([(0.16, 0.18, 0.24), (0.24, 0.25, 0.3), (0.4, 0.36, 0.3)], np.float32).T.copy()


def _person(a: Array, b: Array, sight: FigureView, owner: Index) -> list[Part]:
    own = sight.own
    stride = (0.25 + 0.2 * ((own >> 3) % 3)).take(owner)
    legs = (np.abs(np.abs(a) - stride * (0.48 - b) / 0.48) < 0.26) & (b < 0.48)
    coat = (np.abs(a) < 0.62 - 0.55 * np.maximum(b - 0.72, 0)) & (b >= 0.44) & (b < 0.84)
    up = (b - 0.91) / 0.09
    head = up * up + (a / 0.42) ** 2 < 1.05
    tints = (
        table.take((own >> shift) % table.shape[1], 1)
        for table, shift in ((LEGS, 5), (SKIN, 7), (HAIR, 9))
    )
    trousers, face, crest = (tint.take(owner, 1) for tint in tints)
    return [
        (legs, trousers, HUMAN),
        (coat, sight.tint.take(owner, 1), HUMAN),
        (head, face, HUMAN),
        (head & (up > 0.15), crest, HUMAN),
    ]


DRAWN: dict[int, Callable[[Array, Array, FigureView, Index], list[Part]]] = {
    LAMP: _lamp,
    SIGN: _sign,
    LIGHTS: _lights,
    PERSON: _person,
    TREE: _tree,
    POPLAR: _poplar,
    FIR: _fir,
    PALM: _palm,
}
