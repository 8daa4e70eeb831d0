"""The ends of a spectrum: Lanczos for numbers to rely on, power iteration with deflation as the
papers do it.

Everything here takes any symmetric `Operator`, be it a `Hessian` or a plain matrix.

Power iteration starts from a normalised Gaussian vector, makes at most 20 iterations, and stops
when the Rayleigh quotient changes by less than 1e-4 of itself; the next pair is that of ``H - sum
lambda_i v_i v_i^T``, from a fresh start orthogonal to what was found. It finds what is largest in
magnitude, so that negative eigenvalues may be among the values, and 20 iterations often leave the
third digit open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor

from fedflat.core.flat import TINY, unit
from fedflat.core.seeds import torch_generator
from fedflat.errors import RunError, SettingError, choice, number
from fedflat.flatness.hessian import Operator
from fedflat.flatness.lanczos import thick_restart

RESTARTS = 20
BASIS = 2**30
"""Bytes that the basis of Lanczos may take, if that is enough for a small basis."""


@dataclass(frozen=True)
class Pairs:
    """Eigenvalues in descending order, their vectors in columns, and how far each is off: ``||H v -
    lambda v||``."""

    values: Tensor
    vectors: Tensor
    residuals: Tensor

    @property
    def negative(self) -> int:
        """How many of the values are below zero."""
        return int((self.values < 0).sum())


def steps_of(k: int) -> int:
    """Lanczos steps before the first restart, and vectors of the basis, where memory does not
    matter."""
    return max(2 * k + 10, 40)


def basis_of(op: Operator, k: int, memory: int = BASIS) -> int:
    """Vectors of the basis: as many as fit into ``memory`` bytes, from ``2 k + 2`` to
    ``steps_of(k)``."""
    fit = memory // (op.shape[0] * op.dtype.itemsize) - 1
    return min(steps_of(k), max(2 * k + 2, fit))


def eigenvalues(
    op: Operator,
    k: int = 5,
    *,
    which: str = "LA",
    tol: float = 1e-3,
    seed: int = 0,
    memory: int = BASIS,
) -> Pairs:
    """The ``k`` largest eigenvalues of ``op`` by Lanczos; with ``which="LM"`` the largest in
    magnitude.

    A pair is done when its residual is ``tol`` of its value; the value itself is then good to about
    the square. A matrix with no more rows than Lanczos would make steps is written out and solved
    whole. One that is not finite has no eigenvalues: they are NaN. The basis takes at most
    ``memory`` bytes, but has at least ``2 k + 2`` vectors.

    >>> eigenvalues(torch.diag(torch.tensor([3.0, 1.0, -4.0])), 2).values.tolist()
    [3.0, 1.0]
    """
    dim = op.shape[0]
    number("eigenvalues", "k", k, low=1, high=dim, whole=True)
    number("eigenvalues", "tol", tol, low=0)
    number("eigenvalues", "memory", memory, low=0, whole=True)
    choice("eigenvalues", "which", which, ["LA", "LM"])
    if dim <= steps_of(k):
        values, vectors = _dense(op, k, which)
    else:
        values, vectors = _lanczos(op, k, which, basis_of(op, k, memory), tol, seed)
    return Pairs(values, vectors, _residuals(op, values, vectors))


def _dense(op: Operator, k: int, which: str) -> tuple[Tensor, Tensor]:
    whole = op @ torch.eye(op.shape[0], dtype=op.dtype, device=op.device)
    if not torch.isfinite(whole).all():
        return torch.full((k,), torch.nan, dtype=op.dtype, device=op.device), whole[:, :k]
    values, vectors = torch.linalg.eigh((whole + whole.T) / 2)
    kept = (values if which == "LA" else values.abs()).topk(k).indices
    kept = kept[values[kept].argsort(descending=True)]
    return values[kept], vectors[:, kept]


def _lanczos(
    op: Operator, k: int, which: str, size: int, tol: float, seed: int
) -> tuple[Tensor, Tensor]:
    restarts = RESTARTS * -(-(steps_of(k) - k) // (size - k))
    found = thick_restart(
        op, k, _starts(op, seed), size=size, restarts=restarts, tol=tol, magnitude=which == "LM"
    )
    if found.converged < k and not found.values.isnan().any():
        more = "" if size == steps_of(k) else " Allow more memory for a larger basis."
        raise RunError(
            f"Lanczos found {found.converged} of {k} eigenvalues to a tolerance of {tol:g} in {restarts} restarts "
            f"with a basis of {size} vectors. Ask for fewer, for a larger tolerance, or compute in float64.{more}"
        )
    if which == "LM":
        order = found.values.argsort(descending=True)
        return found.values[order], found.vectors[order].T
    return found.values, found.vectors.T


def _starts(op: Operator, seed: int) -> Iterator[Tensor]:
    """Random unit vectors, the first as ever, the others for when Lanczos must begin anew."""
    yield _gaussian(op, seed)
    for i in count():
        yield _gaussian(op, seed, i)


def _residuals(op: Operator, values: Tensor, vectors: Tensor) -> Tensor:
    """One product at a time: a block of them would take as much memory as the basis."""
    found = [
        torch.linalg.vector_norm(op @ v - value * v)
        for value, v in zip(values, vectors.T, strict=True)
    ]
    return torch.stack(found)


def power_iteration(
    op: Operator, k: int = 5, *, iterations: int = 20, tol: float = 1e-4, seed: int = 0
) -> Pairs:
    """The ``k`` eigenvalues largest in magnitude, one after the other, in descending order of
    value."""
    number("power_iteration", "k", k, low=1, high=op.shape[0], whole=True)
    number("power_iteration", "iterations", iterations, low=1, whole=True)
    values = torch.zeros(k, dtype=op.dtype, device=op.device)
    vectors = torch.zeros(op.shape[0], k, dtype=op.dtype, device=op.device)
    residuals = torch.zeros_like(values)
    for i in range(k):
        v = _gaussian(op, seed, i)
        v = unit(v - vectors @ (vectors.T @ v))
        value = torch.zeros((), dtype=op.dtype, device=op.device)
        for _ in range(iterations):
            product = op @ v
            product = product - vectors @ (values * (vectors.T @ v))
            before, value = value, v @ product
            residuals[i] = torch.linalg.vector_norm(product - value * v)
            v = unit(product)
            if (value - before).abs() <= tol * before.abs() + TINY:
                break
        values[i], vectors[:, i] = value, v
    order = values.argsort(descending=True)
    return Pairs(values[order], vectors[:, order], residuals[order])


def ratio(values: Tensor) -> float:
    """``lambda_1 / lambda_5``: how far the first stands out of the bulk.

    >>> ratio(torch.tensor([10.0, 8.0, 6.0, 5.0, 4.0]))
    2.5
    """
    if len(values) < 5:
        raise SettingError(
            f"lambda_1/lambda_5 needs five eigenvalues, found {len(values)}. Ask for k=5 or more."
        )
    return float(values[0] / values[4])


def _gaussian(op: Operator, seed: int, *path: int) -> Tensor:
    rng = torch_generator(seed, "eigenvectors", *path)
    return unit(torch.randn(op.shape[0], dtype=torch.float64, generator=rng)).to(
        dtype=op.dtype, device=op.device
    )
