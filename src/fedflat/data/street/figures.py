"""Trees, lamps, signs, lights and people: upright, always turned to the camera, drawn in their own coordinates.

``a`` goes from -1 at the left edge to 1 at the right edge of a figure, ``b`` from 0 at its foot to 1 at its top. A
figure is drawn in parts, each over those before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.camera import Array
from fedflat.data.street.fragments import NOTHING, Painted, cut, darken
from fedflat.data.street.frame import BOARD, GREEN, HUMAN, POLE, ROUND, UP, Frame, rough
from fedflat.data.street.town import FIR, LAMP, LIGHTS, PALM, PERSON, POPLAR, SIGN, TREE, Figures

REACH = 110.0
BARK, STEEL = np.array([0.34, 0.26, 0.2], np.float32), np.array([0.42, 0.43, 0.45], np.float32)
WHITE = np.array([0.93, 0.93, 0.93], np.float32)


@dataclass(frozen=True)
class Sight:
    """The figures in a picture, or the figure of each pixel."""

    kind: NDArray[np.int64]
    column: Array
    foot: Array
    tall: Array
    half: Array
    depth: Array
    tint: Array
    own: NDArray[np.int64]
    turn: Array
    """How far a lamp's arm reaches to the right, from -1 to 1."""

    def at(self, index: NDArray[np.int64]) -> Sight:
        """Some of them, or one as often as it is named."""
        return Sight(*(getattr(self, name)[index] for name in Sight.__dataclass_fields__))

    @property
    def pixel(self) -> Array:
        """Half a pixel in units of ``a``."""
        return 0.5 / self.half


Part = tuple[NDArray[np.bool_], Array, int]
"""Which pixels, in which colour, of which class."""


def in_sight(frame: Frame, figures: Figures) -> Sight:
    """The figures in the picture that are large enough to be seen."""
    camera = frame.camera
    right, ahead = camera.view(figures.place[:, 0], figures.place[:, 1])
    there = (ahead > 0.8) & (ahead < REACH) & (np.abs(right) < camera.slopes[-1] * ahead + figures.half)
    there &= figures.height * camera.focal > np.where(figures.kind >= TREE, 1.5, 3.0) * ahead
    chosen = np.flatnonzero(there)
    right, ahead = right[chosen], ahead[chosen]
    scale = np.float32(camera.focal) / ahead
    x, y = camera.forward
    turn = figures.toward[chosen, 0] * np.float32(y) - figures.toward[chosen, 1] * np.float32(x)
    column, foot = camera.width / 2 + right * scale, np.float32(camera.horizon) + np.float32(camera.height) * scale
    return Sight(
        figures.kind[chosen], column, foot, figures.height[chosen] * scale, figures.half[chosen] * scale, ahead,
        figures.tint[chosen], figures.own[chosen], turn,
    )  # fmt: skip


def draw(frame: Frame, sight: Sight) -> Painted:
    """The pixels of all figures before what is in the picture."""
    left, right, top = sight.column - sight.half, sight.column + sight.half, sight.foot - sight.tall
    pixels = cut(left, right, top, sight.foot, frame.mask.shape)
    pixels = pixels.only(sight.depth[pixels.owner] < frame.depth.ravel()[pixels.place])
    owner = pixels.owner
    a = (pixels.column.astype(np.float32) + (np.float32(0.5) - sight.column)[owner]) / sight.half[owner]
    b = ((sight.foot - np.float32(0.5))[owner] - pixels.row.astype(np.float32)) / sight.tall[owner]
    kinds = np.where((b >= 0) & (b < 1), sight.kind[owner], -1)
    kind = np.full(len(pixels), NOTHING, np.uint8)
    colour = np.zeros((len(pixels), 3), np.float32)
    for number, drawn in DRAWN.items():
        mine = np.flatnonzero(kinds == number)
        if len(mine):
            for inside, tint, klass in drawn(a[mine], b[mine], sight.at(owner[mine])):
                there = mine[inside]
                kind[there] = klass
                colour[there] = tint[inside] if tint.ndim == 2 else tint
    seen = np.flatnonzero(kind != NOTHING)
    facing = np.full(len(seen), ROUND, np.uint8)
    return Painted(pixels.place[seen], sight.depth[owner[seen]], kind[seen], colour[seen], facing)


def shade(frame: Frame, sight: Sight) -> None:
    """Darken the ground at the feet of figures."""
    sight = sight.at(np.flatnonzero(sight.depth < 45))
    wide = np.maximum(sight.half * np.where(sight.kind >= PERSON, np.float32(0.8), np.float32(0.12)), 0.5)
    flat = np.maximum(0.6, wide * np.float32(frame.camera.height) / sight.depth)
    pixels = cut(sight.column - wide, sight.column + wide, sight.foot - flat, sight.foot + flat, frame.mask.shape)
    pixels = pixels.only(frame.facing.ravel()[pixels.place] == UP)
    owner = pixels.owner
    up = (pixels.row + np.float32(0.5) - sight.foot[owner]) / flat[owner]
    out = (pixels.column + np.float32(0.5) - sight.column[owner]) / wide[owner]
    darken(frame, pixels, (np.maximum(0, 1 - up * up - out * out) * 0.4).astype(np.float32))


def lamps(frame: Frame, sight: Sight) -> None:
    """Note the lamps that are lit and not hidden."""
    for number in np.flatnonzero((sight.kind == LAMP) | (sight.kind == LIGHTS)).tolist():
        column, foot, tall, half, depth, turn = (
            float(part[number]) for part in (sight.column, sight.foot, sight.tall, sight.half, sight.depth, sight.turn)
        )
        if sight.kind[number] == LAMP:
            column, row, size, light = column + 0.8 * turn * half, foot - 0.95 * tall, 0.5 * tall, (1.0, 0.8, 0.5)
        else:
            place, tint = LIT[int(sight.own[number]) % 2]
            row, size, light = foot - (0.74 + 0.26 * place) * tall, 0.12 * tall, tint
        frame.shine(column, row, depth, size, light)


def _crown(a: Array, b: Array, each: Sight, wide: Array) -> list[Part]:
    trunk = (np.abs(a) < np.maximum(0.06, each.pixel)) & (b < 0.5)
    mottle = rough(a * 24 + each.own % 7 * 31, b * 40)
    crown = (np.abs(a) + (mottle - 0.5) * 0.4 < wide) & (wide > 0)
    light = 0.5 + 0.45 * b - 0.12 * a + 0.7 * (mottle - 0.5)
    return [(trunk, BARK, GREEN), (crown, light[:, None] * each.tint, GREEN)]


def _tree(a: Array, b: Array, each: Sight) -> list[Part]:
    """A round crown, with leaves that stick out."""
    shape, up = (each.own % 7).astype(np.float32), (b - 0.64) / 0.36
    bumps = 1 + 0.12 * np.sin(5 * a + shape + 3 * up) + 0.1 * np.sin(9 * up + 2 * shape)
    return _crown(a, b, each, np.sqrt(np.clip(bumps - up * up, 0, 1)) * (b > 0.26))


def _poplar(a: Array, b: Array, each: Sight) -> list[Part]:
    """A spindle."""
    return _crown(a, b, each, 0.95 * np.sqrt(np.clip(np.sin(np.clip((b - 0.1) / 0.9, 0, 1) ** 0.8 * np.pi), 0, 1)))


def _fir(a: Array, b: Array, each: Sight) -> list[Part]:
    """Rows of branches."""
    return _crown(a, b, each, (1 - b) * (0.82 + 0.3 * ((b * 6) % 1 < 0.5)) * (b > 0.12))


def _palm(a: Array, b: Array, each: Sight) -> list[Part]:
    lean = 0.12 * np.sin((each.own % 97).astype(np.float32)) * b * b
    trunk = (np.abs(a - lean) < np.maximum(0.055, each.pixel)) & (b < 0.84)
    out, up = np.abs(a - lean), (b - 0.82) / 0.18
    fronds = np.abs(up - 0.75 * np.sin(np.minimum(out * 2.2, 3.1)) + 1.3 * out * out) < 0.34 - 0.18 * out
    fronds |= np.abs(up + 0.5 - 0.9 * np.sin(out * 1.6) + 2.2 * out * out) < 0.3 - 0.3 * out
    fronds |= (np.abs(out - 0.12 * np.maximum(up, 0)) < 0.14) & (up > -0.2) & (up < 0.9)
    light = 0.75 + 0.5 * rough(a * 30, b * 60)
    return [(trunk, BARK * 1.35, GREEN), (fronds, light[:, None] * each.tint, GREEN)]


def _lamp(a: Array, b: Array, each: Sight) -> list[Part]:
    post = (np.abs(a) < np.maximum(0.05, each.pixel)) & (b < 0.985)
    reach = a * each.turn
    arm = (reach > 0) & (reach < each.turn * each.turn * 0.85)
    arm &= np.abs(b - 0.965) < np.maximum(0.012, 0.5 / each.tall)
    head = (np.abs(a - 0.8 * each.turn) < 0.24) & (np.abs(b - 0.95) < np.maximum(0.02, 0.7 / each.tall))
    return [(post | arm, STEEL, POLE), (head, STEEL * 0.8, POLE)]


SIGNS = np.array([(0.8, 0.1, 0.1), (0.12, 0.3, 0.66), (0.94, 0.76, 0.1), (0.1, 0.45, 0.25)], np.float32)
"""Round with a red rim, square and blue, a yellow diamond, a green board with a name."""


def _sign(a: Array, b: Array, each: Sight) -> list[Part]:
    post = (np.abs(a) < np.maximum(0.09, each.pixel)) & (b < 0.9)
    up = (b - 0.85) * (2.9 / 0.42)  # as many metres up as across
    kind = each.own % 4
    out, over = np.abs(a), np.abs(up)
    far = np.choose(kind, (np.hypot(a, up), np.maximum(out, over) * 1.09, out + over, np.maximum(out, over * 2.2)))
    inner = np.choose(kind, (far < 0.62, (out < 0.34) & (over < 0.5), out < 0, (over < 0.1) & (out < 0.75)))
    return [(post, STEEL, POLE), (far < 1, SIGNS[kind], BOARD), (inner, WHITE, BOARD)]


LIT = ((0.83, (1.0, 0.2, 0.12)), (0.17, (0.2, 0.95, 0.45)))
"""How high the light is that is on, and its colour: stop, go."""


def _lights(a: Array, b: Array, each: Sight) -> list[Part]:
    post = (np.abs(a) < np.maximum(0.18, each.pixel)) & (b < 0.8)
    box = (np.abs(a) < 0.85) & (b > 0.74)
    which = each.own % 2
    place, tint = (np.array(part, np.float32)[which] for part in zip(*LIT, strict=True))
    shown = (np.abs(a) < 0.55) & (np.abs((b - 0.74) / 0.26 - place) < 0.15)
    return [(post, STEEL * 0.6, POLE), (box, WHITE * 0.1, BOARD), (shown, tint, BOARD)]


HAIR = np.array([(0.16, 0.12, 0.1), (0.4, 0.28, 0.16), (0.7, 0.6, 0.42), (0.1, 0.09, 0.09)], np.float32)
SKIN = np.array([(0.92, 0.74, 0.62), (0.72, 0.52, 0.4), (0.46, 0.32, 0.25), (0.86, 0.66, 0.5)], np.float32)
LEGS = np.array([(0.16, 0.18, 0.24), (0.24, 0.25, 0.3), (0.4, 0.36, 0.3)], np.float32)


def _person(a: Array, b: Array, each: Sight) -> list[Part]:
    stride = 0.25 + 0.2 * ((each.own >> 3) % 3)
    legs = (np.abs(np.abs(a) - stride * (0.48 - b) / 0.48) < 0.26) & (b < 0.48)
    coat = (np.abs(a) < 0.62 - 0.55 * np.maximum(b - 0.72, 0)) & (b >= 0.44) & (b < 0.84)
    up = (b - 0.91) / 0.09
    head = up * up + (a / 0.42) ** 2 < 1.05
    face, crest = SKIN[(each.own >> 7) % len(SKIN)], HAIR[(each.own >> 9) % len(HAIR)]
    return [
        (legs, LEGS[(each.own >> 5) % len(LEGS)], HUMAN), (coat, each.tint, HUMAN), (head, face, HUMAN),
        (head & (up > 0.15), crest, HUMAN),
    ]  # fmt: skip


DRAWN: dict[int, Callable[[Array, Array, Sight], list[Part]]] = {
    LAMP: _lamp, SIGN: _sign, LIGHTS: _lights, PERSON: _person, TREE: _tree, POPLAR: _poplar, FIR: _fir, PALM: _palm,
}  # fmt: skip
