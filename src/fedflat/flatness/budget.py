"""Memory and time that the curvature of a model takes, estimated beforehand.

Memory is counted in vectors with one number per parameter of the model. A quarter of the limit is
for graphs that are stored between products, and a quarter for vectors that an estimator uses at
once: the basis of Lanczos, the random vectors of trace and density. The rest is for the model, its
gradient and one product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedflat.errors import SettingError
from fedflat.flatness.density import STEPS as DENSITY_STEPS
from fedflat.flatness.density import VECTORS_PER_PROBE
from fedflat.flatness.hessian import Hessian, Operator
from fedflat.flatness.sharpness import STEPS as ASCENT_STEPS
from fedflat.flatness.spectrum import basis_of, steps_of
from fedflat.flatness.subsample import PROBES
from fedflat.flatness.trace import BLOCK, VECTORS_PER_SIGN, columns_of

MEMORY = 4 * 10**9
"""Default limit of an analysis in bytes, besides the program and the data."""
MODEL, PRODUCT, ASCENT, DOUBLES = 4, 6, 8, 4
"""Number of vectors: of the model and its gradient; of one product; of the ascent in a ball; of
a product of two vectors in float64.
"""


@dataclass(frozen=True)
class Need:
    """Cost of one part of an analysis."""

    products: float
    vectors: float = 0
    """Largest number at one time, besides those of the model and of a product."""


@dataclass(frozen=True)
class AnalysisCost:
    """Estimated cost of an analysis."""

    memory: int
    """Largest number of bytes at one time, besides the program and the data."""
    products: float
    seconds: float
    parameters: int
    examples: int


def quarter(memory: int) -> int:
    """Return the bytes for stored graphs. The vectors of an estimator get as many."""
    return memory // 4


def needs(
    hessian: Hessian,
    *,
    k: int,
    probes: int,
    method: str,
    density: int,
    layers: bool,
    power: bool,
    rho: float | None,
    some: bool,
    memory: int,
) -> dict[str, Need]:
    """Return the cost of each part of an analysis.

    With `some`, not all examples are used, so the spread over parts of them is measured as well.
    """
    blocks = hessian.layers().values()
    room = quarter(memory)
    third = min(probes // 3, hessian.shape[0])
    at_once = min(density, columns_of(hessian, VECTORS_PER_PROBE, room))
    signs = (
        min(BLOCK, probes, columns_of(hessian, VECTORS_PER_SIGN, room)) * VECTORS_PER_SIGN + DOUBLES
    )
    few = (
        min(BLOCK, columns_of(hessian, VECTORS_PER_SIGN, room)) * VECTORS_PER_SIGN + DOUBLES
        if probes
        else 0
    )
    return {
        "eigenvalues": Need(steps_of(k) + k, _basis(hessian, hessian, k, room)) if k else Need(0),
        "power iteration": Need(20 * k, 2 * k) if power else Need(0),
        "trace": Need(probes, 4 * third + DOUBLES if method == "hutch++" else signs)
        if probes
        else Need(0),
        "density": Need(density * DENSITY_STEPS, at_once * VECTORS_PER_PROBE),
        "layers": Need(
            (steps_of(1) + 1) * len(blocks), max(_basis(hessian, one, 1, room) for one in blocks)
        )
        if layers
        else Need(0),
        "sharpness": Need(ASCENT_STEPS + 1, ASCENT) if rho is not None else Need(0),
        "subsample": Need(
            steps_of(1) + 1 + (PROBES if probes else 0),
            MODEL + max(_basis(hessian, hessian, 1, room), few),
        )
        if some
        else Need(0),
    }


def cost(hessian: Hessian, parts: Mapping[str, Need]) -> AnalysisCost:
    """Return the cost of the whole analysis, from the measured cost of the first batch."""
    product = hessian.measure_cost()
    vectors = MODEL + PRODUCT + max((one.vectors for one in parts.values()), default=0)
    products = sum(one.products for one in parts.values())
    memory = (
        round(vectors * hessian.shape[0] * hessian.dtype.itemsize)
        + product.held
        + 2 * product.graph
    )
    return AnalysisCost(
        memory, products, products * product.seconds, hessian.shape[0], len(hessian.objective.data)
    )


_REMEDIES = {
    "eigenvalues": "fewer eigenvalues (-k)",
    "power iteration": "fewer eigenvalues (-k)",
    "trace": "--trace hutchinson, or fewer --probes",
    "subsample": "--examples all, which measures no spread",
}
"""What to do if a part needs too much memory."""


def refuse_above(memory: int, estimate: AnalysisCost, parts: Mapping[str, Need]) -> None:
    """Raise `SettingError` if an analysis would take more than `memory` bytes."""
    if estimate.memory <= memory:
        return
    worst = max(parts, key=lambda name: parts[name].vectors)
    needed = -(-estimate.memory // 10**8) / 10
    remedy = f", or use {_REMEDIES[worst]}" if worst in _REMEDIES else ""
    raise SettingError(
        f"curvature of {estimate.parameters:,} parameters needs about {needed:g} GB of memory, "
        f"most of it for {worst}, and the limit is {memory / 1e9:g} GB. "
        f"Raise the limit (--memory {needed:g}GB){remedy}."
    )


def _basis(hessian: Hessian, op: Operator, k: int, memory: int) -> float:
    """Return the memory of the basis for `op`, in vectors of the whole model."""
    return (basis_of(op, k, memory) + 1) * op.shape[0] / hessian.shape[0]
