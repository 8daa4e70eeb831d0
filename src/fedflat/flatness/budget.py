"""How much memory and time the curvature of a model takes, known before it is worked out.

Memory is counted in vectors of as many numbers as the model has parameters. A quarter of the limit
is for graphs that are held between products, a quarter for vectors that an estimator works on at
once: the basis of Lanczos, the random vectors of trace and density. The rest is for the model, its
gradient, and one product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedflat.errors import SettingError
from fedflat.flatness.density import STEPS as DENSITY_STEPS
from fedflat.flatness.density import WALK
from fedflat.flatness.hessian import Hessian, Operator
from fedflat.flatness.sharpness import STEPS as ASCENT_STEPS
from fedflat.flatness.spectrum import basis_of, steps_of
from fedflat.flatness.subsample import PROBES
from fedflat.flatness.trace import BLOCK, SIGNS, columns_of

MEMORY = 4 * 10**9
"""Bytes that an analysis of curvature may take, beside the program and the data."""
MODEL, PRODUCT, ASCENT, DOUBLES = 4, 6, 8, 4
"""Vectors: of the model and its gradient; of one product; of the ascent in a ball; of a product of
two in float64."""


@dataclass(frozen=True)
class Need:
    """What one part of an analysis takes."""

    products: float
    vectors: float = 0
    """At the same time, beside those of the model and of a product."""


@dataclass(frozen=True)
class Cost:
    """What an analysis takes, by estimate."""

    memory: int
    """Bytes at the worst time, beside the program and the data."""
    products: float
    seconds: float
    parameters: int
    examples: int


def a_part(memory: int) -> int:
    """Bytes of the limit for held graphs, and as many for the vectors of an estimator."""
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
    """What each part takes; ``some``: not all examples are used, so that the spread over parts of
    them is measured."""
    blocks = hessian.layers().values()
    room = a_part(memory)
    third = min(probes // 3, hessian.shape[0])
    walking = min(density, columns_of(hessian, WALK, room))
    signs = min(BLOCK, probes, columns_of(hessian, SIGNS, room)) * SIGNS + DOUBLES
    few = min(BLOCK, columns_of(hessian, SIGNS, room)) * SIGNS + DOUBLES if probes else 0
    return {
        "eigenvalues": Need(steps_of(k) + k, _basis(hessian, hessian, k, room)) if k else Need(0),
        "power iteration": Need(20 * k, 2 * k) if power else Need(0),
        "trace": Need(probes, 4 * third + DOUBLES if method == "hutch++" else signs)
        if probes
        else Need(0),
        "density": Need(density * DENSITY_STEPS, walking * WALK),
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


def cost(hessian: Hessian, parts: Mapping[str, Need]) -> Cost:
    """The whole of an analysis, by the cost of a product with the first batch."""
    measured = hessian.measured()
    vectors = MODEL + PRODUCT + max((one.vectors for one in parts.values()), default=0)
    products = sum(one.products for one in parts.values())
    memory = (
        round(vectors * hessian.shape[0] * hessian.dtype.itemsize)
        + measured.held
        + 2 * measured.graph
    )
    return Cost(
        memory, products, products * measured.seconds, hessian.shape[0], len(hessian.objective.data)
    )


_LESS = {
    "eigenvalues": "fewer eigenvalues (-k)",
    "power iteration": "fewer eigenvalues (-k)",
    "trace": "--trace hutchinson, or fewer --probes",
    "subsample": "--examples all, which measures no spread",
}
"""What takes less memory than each part."""


def refuse_beyond(memory: int, found: Cost, parts: Mapping[str, Need]) -> None:
    """Refuse an analysis that would take more than ``memory`` bytes."""
    if found.memory <= memory:
        return
    worst = max(parts, key=lambda name: parts[name].vectors)
    needed = -(-found.memory // 10**8) / 10
    less = f", or ask for {_LESS[worst]}" if worst in _LESS else ""
    raise SettingError(
        f"curvature of {found.parameters:,} parameters needs about {needed:g} GB of memory, most of it for {worst}, "
        f"and the limit is {memory / 1e9:g} GB. Raise the limit (--memory {needed:g}GB){less}."
    )


def _basis(hessian: Hessian, op: Operator, k: int, memory: int) -> float:
    """Vectors of the whole model that the basis for ``op`` and its products take."""
    return (basis_of(op, k, memory) + 1) * op.shape[0] / hessian.shape[0]
