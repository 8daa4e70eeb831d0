"""How a convolution is made by fewer products: the same sums but for their rounding.

Each output of a row of ``n`` pixels under ``r`` weights takes ``r`` products. But the row and the
weights are polynomials, and what is wanted are coefficients of their product, which is known by its
values at ``n`` points (Toom, Cook, Winograd). A value costs one product at a real point, and three
at a pair of complex ones (Karatsuba). Real points alone would take the fewest products and round
worst; with most points on the unit circle it is as exact as plain sums.

In two dimensions the transforms are made along rows and along columns, and between them stands one
matrix product over channels for each pair of points: a kernel of 5x5 over 14x14 pixels takes 18 x
18 = 324 products in place of 2,500. Whether that is worth the transforms is judged by counting and
not by the clock, so that a command gives the same bits always.
"""

from __future__ import annotations

import cmath
from functools import lru_cache
from math import ceil, inf, pi, prod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

REAL = (0.0, inf, 1.0, -1.0, 0.5, -2.0)
"""Real points; all others come in pairs on the unit circle."""
ONE = ([[1.0]],) * 3
KARATSUBA = (
    [[1.0, 1], [1.0, 0], [0.0, 1]],
    [[1.0, 0], [-1.0, 1], [1.0, 1]],
    [[1.0, 0, -1], [1.0, 1, 0]],
)
"""What is multiplied with what for the value at a point, and how the products become it: of ``a +
ib`` and ``c + id`` ``(a + b) c``, ``a (d - c)`` and ``b (c + d)``."""
LARGEST, TILES = 14, 4
"""The most outputs of a tile along one axis, and tiles of an image: more are slower to handle than
counted here."""
PRODUCT, TRANSFORM, WEIGHT, MOVE = 1.3, 2.0, 4.0, 10.0
"""What one multiplication of each part takes, in those of a plain convolution, whose matrices are
larger; and what it takes to cut or glue one number where there are several tiles."""
WORTH = 0.8
"""The share of a plain convolution's time from which on nothing is changed."""


class WinogradTransform(NamedTuple):
    """``outputs.T @ ((pixels @ x) * (weights @ w))`` are the sums ``x[i] w[0] + x[i + 1] w[1] +
    ...`` for all ``i``."""

    pixels: Tensor
    weights: Tensor
    outputs: Tensor


@lru_cache(maxsize=64)
def transform_for(tile: int, width: int, dtype: torch.dtype = torch.float64) -> WinogradTransform:
    """The transforms for ``tile`` outputs of a kernel of ``width``; of the two, one is even and one
    is odd.

    >>> [len(transform_for(tile, 5).pixels) for tile in (2, 4, 8, 10)]
    [6, 9, 15, 18]
    """
    length = tile + width - 1
    pairs = max(0, length - len(REAL)) // 2
    points = [*REAL[:length], *(1j * pi * (k + 1) / (pairs + 1) for k in range(pairs))]
    ways = [
        [_matrix(part) for part in (KARATSUBA if isinstance(point, complex) else ONE)]
        for point in points
    ]
    inputs = torch.cat(
        [way[0] @ _powers(point, tile) for point, way in zip(points, ways, strict=True)]
    )
    weights = torch.cat(
        [way[1] @ _powers(point, width) for point, way in zip(points, ways, strict=True)]
    )
    values = torch.cat([_powers(point, length) for point in points])
    size = values.abs().amax(
        dim=1, keepdim=True
    )  # powers of two grow; solved in proportion, digits are kept
    coefficients = torch.linalg.solve(
        values / size, torch.block_diag(*(way[2] for way in ways)) / size
    )
    return WinogradTransform(
        *(part.to(dtype) for part in _balanced(coefficients.T, weights, inputs))
    )


def _powers(point: float | complex, count: int) -> Tensor:
    """What multiplies each coefficient of a polynomial in its value at a point; of a complex one,
    given as its logarithm, both parts of the value."""
    if isinstance(point, complex):
        rows = [cmath.exp(point * k) for k in range(count)]
        return _matrix([[z.real for z in rows], [z.imag for z in rows]])
    return _matrix([[float(k == count - 1) if point == inf else point**k for k in range(count)]])


def _matrix(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64, device="cpu")


def _balanced(pixels: Tensor, weights: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same rule with rows of about one size, so that no part of a sum drowns another."""
    by_pixel, by_weight = pixels.norm(dim=1, keepdim=True), weights.abs().amax(dim=1, keepdim=True)
    return pixels / by_pixel, weights / by_weight, outputs * by_pixel * by_weight


class TilePlan(NamedTuple):
    """How an image is cut into tiles, which overlap by the kernel's width less one."""

    height: int
    width: int
    rows: tuple[int, int]
    """Outputs of a tile, and the kernel's width."""
    columns: tuple[int, int]

    @property
    def tiles(self) -> tuple[int, int]:
        """How many tiles cover the outputs, down and across."""
        return ceil(self.height / self.rows[0]), ceil(self.width / self.columns[0])

    @property
    def points(self) -> tuple[int, int]:
        """How many products a tile takes, down and across."""
        down, across = (len(transform_for(*axis).pixels) for axis in (self.rows, self.columns))
        return down, across

    def cost(self, batch: int, channels: int, outputs: int) -> float:
        """About how many multiplications of a plain convolution take as long."""
        (a, r), (b, s), (p, q), (down, across) = self.rows, self.columns, self.points, self.tiles
        n, m, visits = a + r - 1, b + s - 1, batch * down * across
        transforms = channels * (p * n * m + p * q * m) + outputs * (a * p * q + a * b * q)
        weights = channels * outputs * (p * r * s + p * q * s)
        moved = (n * m * channels + a * b * outputs) if down * across > 1 else 0
        each = PRODUCT * p * q * channels * outputs + TRANSFORM * transforms + MOVE * moved
        return visits * each + WEIGHT * weights

    def rules(self, like: Tensor) -> tuple[WinogradTransform, WinogradTransform]:
        """The transforms of columns of pixels and of rows."""
        return transform_for(*self.rows, like.dtype), transform_for(*self.columns, like.dtype)

    def pixels(self, x: Tensor) -> Tensor:
        """Images ``(N, C, H, W)`` at the points: a matrix of tiles and channels for each."""
        down, across = self.rules(x)
        return _along(down.pixels, across.pixels, _cut(x, self)).view(
            prod(self.points), -1, x.shape[1]
        )

    def weights(self, weight: Tensor) -> Tensor:
        """Weights ``(O, C, R, S)`` at the points: a matrix of channels and outputs for each."""
        down, across = self.rules(weight)
        outputs, channels, r, s = weight.shape
        at_points = _along(
            down.weights, across.weights, weight.permute(2, 3, 1, 0).reshape(r, s, -1)
        )
        return at_points.view(-1, channels, outputs)

    def slopes(self, out: Tensor) -> Tensor:
        """Slopes by the outputs ``(N, O, H, W)`` at the points: a matrix of tiles and outputs for
        each."""
        down, across = self.rules(out)
        return _along(down.outputs, across.outputs, _lifted(out, self)).view(
            prod(self.points), -1, out.shape[1]
        )

    def to_outputs(self, products: Tensor, batch: int) -> Tensor:
        """The images, with channels last, from products of pixels and weights."""
        down, across = self.rules(products)
        return _laid(
            _along(down.outputs.T, across.outputs.T, products.view(*self.points, -1)), batch, self
        )

    def to_pixels(self, products: Tensor, like: Tensor) -> Tensor:
        """Slopes by images like these, from products of slopes and weights."""
        down, across = self.rules(products)
        return _glued(
            _along(down.pixels.T, across.pixels.T, products.view(*self.points, -1)),
            like.shape,
            self,
        )

    def to_weights(self, products: Tensor, like: Tensor) -> Tensor:
        """Slopes by weights like these, from products of pixels and slopes."""
        down, across = self.rules(products)
        outputs, channels, r, s = like.shape
        whole = _along(down.weights.T, across.weights.T, products.view(*self.points, -1)).view(
            r, s, channels, outputs
        )
        return whole.permute(3, 2, 0, 1).contiguous()


@lru_cache(maxsize=1024)
def planned(
    image: tuple[int, ...], kernel: tuple[int, ...], *, always: bool = False
) -> TilePlan | None:
    """The best cut of a batch ``(N, C, H, W)`` for weights ``(O, C, R, S)``; None if plain sums are
    quicker.

    >>> planned((64, 64, 14, 14), (64, 64, 5, 5))
    TilePlan(height=10, width=10, rows=(10, 5), columns=(10, 5))
    >>> planned((64, 3, 32, 32), (64, 3, 5, 5)), planned((1, 64, 14, 14), (64, 64, 5, 5))
    (None, None)
    """
    batch, channels, *size = image
    outputs, _, *widths = kernel
    height, width = (n - r + 1 for n, r in zip(size, widths, strict=True))
    if min(height, width) < 1 or batch < 1:
        return None
    plans = [
        TilePlan(height, width, (a, widths[0]), (b, widths[1]))
        for a in _tiles(height, widths[0])
        for b in _tiles(width, widths[1])
    ]
    if not always:
        plans = [plan for plan in plans if prod(plan.tiles) <= TILES]
    best = min(plans, key=lambda plan: plan.cost(batch, channels, outputs), default=None)
    plain = batch * height * width * channels * outputs * widths[0] * widths[1]
    return (
        best if best and (always or best.cost(batch, channels, outputs) < WORTH * plain) else None
    )


def _tiles(size: int, width: int) -> list[int]:
    """Tiles that are worth a look: such that points come out even, none of them twice as large as
    the outputs."""
    most = min(LARGEST, size + 1)
    return [tile for tile in range(1, most + 1) if (tile + width) % 2 and tile + width > 2] or [
        1 + width % 2
    ]


def _along(down: Tensor, across: Tensor, x: Tensor) -> Tensor:
    """Both transforms of ``(rows, columns, rest)``."""
    rows, columns, rest = x.shape
    half = (down @ x.reshape(rows, columns * rest)).view(len(down), columns, rest)
    return torch.bmm(across.expand(len(down), *across.shape), half)


def _cut(x: Tensor, plan: TilePlan) -> Tensor:
    """The tiles of images ``(N, C, H, W)``: their rows, columns, and then the rest, channels
    last."""
    (a, r), (b, s), (down, across) = plan.rows, plan.columns, plan.tiles
    x = _filled(x, down * a + r - 1, across * b + s - 1)
    tiles = x.unfold(2, a + r - 1, a).unfold(3, b + s - 1, b)
    return tiles.permute(4, 5, 0, 2, 3, 1).reshape(a + r - 1, b + s - 1, -1)


def _glued(tiles: Tensor, like: torch.Size, plan: TilePlan) -> Tensor:
    """The transpose of `_cut`: tiles added up where they overlap."""
    batch, channels, height, width = like
    (a, r), (b, s), (down, across) = plan.rows, plan.columns, plan.tiles
    n, m = a + r - 1, b + s - 1
    parts = tiles.view(n, m, batch, down, across, channels).permute(3, 4, 2, 0, 1, 5)
    if down == across == 1:
        whole = parts[0, 0].contiguous()
    else:
        whole = tiles.new_zeros(batch, down * a + r - 1, across * b + s - 1, channels)
        for i in range(down):
            for j in range(across):
                whole[:, i * a : i * a + n, j * b : j * b + m] += parts[i, j]
    return whole[:, :height, :width].permute(0, 3, 1, 2)


def _laid(y: Tensor, batch: int, plan: TilePlan) -> Tensor:
    """Outputs of tiles as images ``(N, O, H, W)`` with channels last."""
    (a, _), (b, _), (down, across) = plan.rows, plan.columns, plan.tiles
    parts = y.view(a, b, batch, down, across, -1).permute(2, 3, 0, 4, 1, 5)
    whole = parts.reshape(batch, down * a, across * b, -1)
    return whole[:, : plan.height, : plan.width].permute(0, 3, 1, 2)


def _lifted(y: Tensor, plan: TilePlan) -> Tensor:
    """The transpose of `_laid`."""
    (a, _), (b, _), (down, across) = plan.rows, plan.columns, plan.tiles
    y = _filled(y, down * a, across * b)
    return y.unfold(2, a, a).unfold(3, b, b).permute(4, 5, 0, 2, 3, 1).reshape(a, b, -1)


def _filled(x: Tensor, height: int, width: int) -> Tensor:
    """Images with zeros below and to the right, up to this size."""
    below, right = height - x.shape[2], width - x.shape[3]
    return pad(x, (0, right, 0, below)) if below or right else x
