"""Winograd convolutions: fewer products, equal to plain convolutions up to rounding.

Each output of a row of ``n`` pixels under ``r`` weights takes ``r`` products. But the row and the
weights are polynomials, and the outputs are coefficients of their product, which is determined by
its values at ``n`` points (Toom, Cook, Winograd). A value takes one product at a real point, and
three at a pair of complex points (Karatsuba). Real points alone would take the fewest products and
have the largest rounding errors; with most points on the unit circle the result is as exact as
plain sums.

In two dimensions rows and columns are transformed, and between the transforms there is one matrix
product over channels for each pair of points. A kernel of 5x5 over 14x14 pixels takes 18 x 18 = 324
products instead of 2,500. The choice between both algorithms depends on counts of operations and
not on measured times, so that a command always gives the same bits.
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
"""Real points; the others are conjugate pairs on the unit circle."""
ONE = ([[1.0]],) * 3
KARATSUBA = (
    [[1.0, 1], [1.0, 0], [0.0, 1]],
    [[1.0, 0], [-1.0, 1], [1.0, 1]],
    [[1.0, 0, -1], [1.0, 1, 0]],
)
"""Factors of the products for the value at a complex point, and how the products are combined: for
``a + ib`` and ``c + id`` these are ``(a + b) c``, ``a (d - c)`` and ``b (c + d)``."""
LARGEST, TILES = 14, 4
"""Most outputs of a tile along one axis, and most tiles of an image.

More are slower than the cost model says.
"""
PRODUCT, TRANSFORM, WEIGHT, MOVE = 1.3, 2.0, 4.0, 10.0
"""Cost of one multiplication of each part, relative to a plain convolution, whose matrices are
larger; and the cost of moving one number if there are several tiles."""
WORTH = 0.8
"""Largest share of a plain convolution's cost at which Winograd is used."""


class WinogradTransform(NamedTuple):
    """Three matrices that compute a 1D convolution.

    ``outputs.T @ ((pixels @ x) * (weights @ w))`` are the sums ``x[i] w[0] + x[i + 1] w[1] + ...``
    for all ``i``.
    """

    pixels: Tensor
    weights: Tensor
    outputs: Tensor


@lru_cache(maxsize=64)
def transform_for(tile: int, width: int, dtype: torch.dtype = torch.float64) -> WinogradTransform:
    """The matrices for ``tile`` outputs of a kernel of ``width``; one of both is even, one odd.

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
    size = values.abs().amax(dim=1, keepdim=True)  # solve at one scale, because powers of two grow
    coefficients = torch.linalg.solve(
        values / size, torch.block_diag(*(way[2] for way in ways)) / size
    )
    return WinogradTransform(
        *(part.to(dtype) for part in _balance(coefficients.T, weights, inputs))
    )


def _powers(point: float | complex, count: int) -> Tensor:
    """Factors of a polynomial's coefficients in its value at a point.

    A complex point is given by its logarithm; the real and the imaginary part are two rows.
    """
    if isinstance(point, complex):
        rows = [cmath.exp(point * k) for k in range(count)]
        return _matrix([[z.real for z in rows], [z.imag for z in rows]])
    return _matrix([[float(k == count - 1) if point == inf else point**k for k in range(count)]])


def _matrix(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64, device="cpu")


def _balance(pixels: Tensor, weights: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same transform with rows of similar size, which reduces rounding errors."""
    by_pixel, by_weight = pixels.norm(dim=1, keepdim=True), weights.abs().amax(dim=1, keepdim=True)
    return pixels / by_pixel, weights / by_weight, outputs * by_pixel * by_weight


class TilePlan(NamedTuple):
    """How an image is cut into tiles, which overlap by the kernel's width minus one."""

    height: int
    width: int
    rows: tuple[int, int]
    """Outputs of a tile, and the kernel's width."""
    columns: tuple[int, int]

    @property
    def tiles(self) -> tuple[int, int]:
        """Number of tiles down and across."""
        return ceil(self.height / self.rows[0]), ceil(self.width / self.columns[0])

    @property
    def points(self) -> tuple[int, int]:
        """Number of points of a tile down and across."""
        down, across = (len(transform_for(*axis).pixels) for axis in (self.rows, self.columns))
        return down, across

    def cost(self, batch: int, channels: int, outputs: int) -> float:
        """Estimated cost, in multiplications of a plain convolution."""
        (a, r), (b, s), (p, q), (down, across) = self.rows, self.columns, self.points, self.tiles
        n, m, visits = a + r - 1, b + s - 1, batch * down * across
        transforms = channels * (p * n * m + p * q * m) + outputs * (a * p * q + a * b * q)
        weights = channels * outputs * (p * r * s + p * q * s)
        moved = (n * m * channels + a * b * outputs) if down * across > 1 else 0
        each = PRODUCT * p * q * channels * outputs + TRANSFORM * transforms + MOVE * moved
        return visits * each + WEIGHT * weights

    def rules(self, like: Tensor) -> tuple[WinogradTransform, WinogradTransform]:
        """The transforms of columns and of rows."""
        return transform_for(*self.rows, like.dtype), transform_for(*self.columns, like.dtype)

    def pixels(self, x: Tensor) -> Tensor:
        """Transform images ``(N, C, H, W)``: a matrix of tiles and channels per point."""
        down, across = self.rules(x)
        return _along(down.pixels, across.pixels, _cut(x, self)).view(
            prod(self.points), -1, x.shape[1]
        )

    def weights(self, weight: Tensor) -> Tensor:
        """Transform weights ``(O, C, R, S)``: a matrix of channels and outputs per point."""
        down, across = self.rules(weight)
        outputs, channels, r, s = weight.shape
        at_points = _along(
            down.weights, across.weights, weight.permute(2, 3, 1, 0).reshape(r, s, -1)
        )
        return at_points.view(-1, channels, outputs)

    def slopes(self, out: Tensor) -> Tensor:
        """Transform output gradients ``(N, O, H, W)``: a matrix of tiles and outputs per point."""
        down, across = self.rules(out)
        return _along(down.outputs, across.outputs, _from_images(out, self)).view(
            prod(self.points), -1, out.shape[1]
        )

    def to_outputs(self, products: Tensor, batch: int) -> Tensor:
        """The output images, channels last, from products of pixels and weights."""
        down, across = self.rules(products)
        return _to_images(
            _along(down.outputs.T, across.outputs.T, products.view(*self.points, -1)), batch, self
        )

    def to_pixels(self, products: Tensor, like: Tensor) -> Tensor:
        """Gradients by images like ``like``, from products of gradients and weights."""
        down, across = self.rules(products)
        return _add_tiles(
            _along(down.pixels.T, across.pixels.T, products.view(*self.points, -1)),
            like.shape,
            self,
        )

    def to_weights(self, products: Tensor, like: Tensor) -> Tensor:
        """Gradients by weights like ``like``, from products of pixels and gradients."""
        down, across = self.rules(products)
        outputs, channels, r, s = like.shape
        whole = _along(down.weights.T, across.weights.T, products.view(*self.points, -1)).view(
            r, s, channels, outputs
        )
        return whole.permute(3, 2, 0, 1).contiguous()


@lru_cache(maxsize=1024)
def plan_tiles(
    image: tuple[int, ...], kernel: tuple[int, ...], *, always: bool = False
) -> TilePlan | None:
    """The cheapest tiling of a batch ``(N, C, H, W)`` for weights ``(O, C, R, S)``.

    None if the plain convolution is faster.

    >>> plan_tiles((64, 64, 14, 14), (64, 64, 5, 5))
    TilePlan(height=10, width=10, rows=(10, 5), columns=(10, 5))
    >>> plan_tiles((64, 3, 32, 32), (64, 3, 5, 5)), plan_tiles((1, 64, 14, 14), (64, 64, 5, 5))
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
    """Tile sizes to consider: with an even number of points, at most twice the outputs."""
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
    """The tiles of images ``(N, C, H, W)`` as (rows, columns, rest), channels last."""
    (a, r), (b, s), (down, across) = plan.rows, plan.columns, plan.tiles
    x = _pad(x, down * a + r - 1, across * b + s - 1)
    tiles = x.unfold(2, a + r - 1, a).unfold(3, b + s - 1, b)
    return tiles.permute(4, 5, 0, 2, 3, 1).reshape(a + r - 1, b + s - 1, -1)


def _add_tiles(tiles: Tensor, like: torch.Size, plan: TilePlan) -> Tensor:
    """The transpose of `_cut`: overlapping tiles are added up."""
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


def _to_images(y: Tensor, batch: int, plan: TilePlan) -> Tensor:
    """Tile outputs as images ``(N, O, H, W)``, channels last."""
    (a, _), (b, _), (down, across) = plan.rows, plan.columns, plan.tiles
    parts = y.view(a, b, batch, down, across, -1).permute(2, 3, 0, 4, 1, 5)
    whole = parts.reshape(batch, down * a, across * b, -1)
    return whole[:, : plan.height, : plan.width].permute(0, 3, 1, 2)


def _from_images(y: Tensor, plan: TilePlan) -> Tensor:
    """The transpose of `_to_images`."""
    (a, _), (b, _), (down, across) = plan.rows, plan.columns, plan.tiles
    y = _pad(y, down * a, across * b)
    return y.unfold(2, a, a).unfold(3, b, b).permute(4, 5, 0, 2, 3, 1).reshape(a, b, -1)


def _pad(x: Tensor, height: int, width: int) -> Tensor:
    """Images padded with zeros below and to the right."""
    below, right = height - x.shape[2], width - x.shape[3]
    return pad(x, (0, right, 0, below)) if below or right else x
