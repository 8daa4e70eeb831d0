"""The curvature of a model on a set of examples, as one JSON object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from fedflat.client.learner import Learner
from fedflat.core.flat import Model
from fedflat.data.examples import ClientData
from fedflat.errors import RunError, choice, flag, number
from fedflat.flatness.budget import MEMORY, AnalysisCost, Need, cost, needs, quarter, refuse_above
from fedflat.flatness.density import spectral_density
from fedflat.flatness.hessian import Hessian
from fedflat.flatness.objective import BATCH
from fedflat.flatness.sharpness import sharpness
from fedflat.flatness.spectrum import eigenvalues, power_iteration, ratio
from fedflat.flatness.subsample import PARTS, spread, subset
from fedflat.flatness.trace import METHODS, trace

OnProgress = Callable[[float, float, str], None]
"""Called after each batch with products done, products expected in total, and their purpose."""


def no_progress(done: float, total: float, what: str) -> None:
    """Ignore progress."""


class CurvatureProgress:
    """Counts products. Corrects the expected total when a part takes more or fewer than planned."""

    def __init__(self, plan: dict[str, float], on_progress: OnProgress = no_progress) -> None:
        self.plan, self.on_progress = plan, on_progress
        self.done, self.total, self.what, self.weight = 0.0, float(sum(plan.values())), "", 1.0

    @contextmanager
    def part(self, what: str, weight: float = 1.0) -> Iterator[None]:
        """Context of one part of the plan. One pass over the set counts `weight` products."""
        start = self.done
        self.what, self.weight = what, weight
        yield
        self.total += self.done - start - self.plan[what]

    def on_share(self, share: float) -> None:
        """Add a share of a pass over the set."""
        self.done += share * self.weight
        self.total = max(self.total, self.done)
        self.on_progress(self.done, self.total, self.what)


def curvature(
    learner: Learner,
    model: Model,
    data: ClientData,
    *,
    k: int = 5,
    probes: int = 0,
    method: str = "hutchinson",
    density: int = 0,
    layers: bool = False,
    power: bool = False,
    rho: float | None = None,
    examples: int | None = None,
    seed: int = 0,
    batch_size: int = BATCH,
    memory: int = MEMORY,
    on_progress: OnProgress = no_progress,
) -> dict[str, Any]:
    """Return loss, parameter norm and the requested parts of the curvature of `model` on `data`.

    `k` is the number of largest eigenvalues; with `power`, power iteration is used too. `probes`
    products estimate the trace by `method`. `density` random vectors estimate the spectral density.
    `layers` adds the largest eigenvalue of each layer, `rho` the sharpness in balls of that radius.
    `examples` are sampled by `seed`, None for all; with fewer than all, the spread over disjoint
    parts is measured. More than `memory` bytes are refused; see `estimate_cost`.

    learner
        Module and loss.
    batch_size
        Number of examples per forward pass.
    on_progress
        Called with the amount done, the total amount, and what is being done.
    """
    used = data if examples is None else subset(data, examples, seed)
    some = len(used) < len(data) and k + probes > 0
    options: dict[str, Any] = {
        "k": k,
        "probes": probes,
        "method": method,
        "density": density,
        "layers": layers,
    }
    options |= {"power": power, "rho": rho, "some": some}
    hessian, parts, _ = _prepare(learner, model, used, batch_size, memory, **options)
    room = quarter(memory)
    progress = CurvatureProgress({name: one.products for name, one in parts.items()}, on_progress)
    hessian.on_share = progress.on_share
    norm = float(torch.linalg.vector_norm(model.params.double()))
    result: dict[str, Any] = {
        "loss": hessian.loss,
        "norm": norm,
        "examples": len(used),
        "of": len(data),
    }
    result |= _spectrum(hessian, progress, k, probes, method, density, layers, power, seed, room)
    if rho is not None:
        with progress.part("sharpness", weight=0.5):
            result["sharpness"] = _sharpness(hessian, rho, progress)
    if some:
        hessian.release()
        with progress.part("subsample", weight=1 / PARTS):
            again = partial(
                Hessian,
                learner,
                model,
                batch_size=batch_size,
                hold=room,
                on_share=progress.on_share,
            )
            result["subsample"] = spread(used, again, trace=probes > 0, seed=seed, memory=room)
    return result


def _spectrum(
    hessian: Hessian,
    progress: CurvatureProgress,
    k: int,
    probes: int,
    method: str,
    density: int,
    layers: bool,
    power: bool,
    seed: int,
    room: int,
) -> dict[str, Any]:
    """Return the requested eigenvalues of the whole Hessian and of its layers."""
    result: dict[str, Any] = {}
    if k:
        with progress.part("eigenvalues"):
            result |= _eigenvalues(hessian, k, seed, room)
    if power:
        with progress.part("power iteration"):
            pairs = power_iteration(hessian, k, seed=seed)
            result |= {"power": pairs.values.tolist(), "power_negative": pairs.negative}
    if probes:
        with progress.part("trace"):
            result["trace"] = asdict(trace(hessian, probes, method=method, seed=seed, memory=room))
    if density:
        with progress.part("density"):
            curve = spectral_density(hessian, density, seed=seed, memory=room)
            result["density"] = {"x": curve.x.tolist(), "y": curve.y.tolist()}
    if layers:
        with progress.part("layers"):
            blocks = hessian.layers().items()
            tops = {
                name: eigenvalues(block, 1, seed=seed, memory=room).values for name, block in blocks
            }
            result["layers"] = {name: float(top[0]) for name, top in tops.items()}
    return result


def estimate_cost(
    learner: Learner,
    model: Model,
    data: ClientData,
    *,
    k: int = 5,
    probes: int = 0,
    method: str = "hutchinson",
    density: int = 0,
    layers: bool = False,
    power: bool = False,
    rho: float | None = None,
    examples: int | None = None,
    batch_size: int = BATCH,
    memory: int = MEMORY,
) -> AnalysisCost:
    """Return the cost of `curvature` with these arguments, from a trial of one batch.

    Raises `SettingError` if it is more than `memory` bytes.
    """
    used = data if examples is None else subset(data, examples)
    some = len(used) < len(data) and k + probes > 0
    _, _, estimate = _prepare(
        learner,
        model,
        used,
        batch_size,
        memory,
        k=k,
        probes=probes,
        method=method,
        density=density,
        layers=layers,
        power=power,
        rho=rho,
        some=some,
    )
    return estimate


def _prepare(
    learner: Learner, model: Model, data: ClientData, batch_size: int, memory: int, **options: Any
) -> tuple[Hessian, dict[str, Need], AnalysisCost]:
    """Return the Hessian, the cost of each part, and the total cost if it is within the limit."""
    _check(
        **{name: options[name] for name in ("k", "probes", "method", "density", "layers", "power")}
    )
    number("curvature", "memory", memory, low=0, whole=True)
    _refuse_nan(model)
    hessian = Hessian(learner, model, data, batch_size=batch_size, hold=quarter(memory))
    parts = needs(hessian, **options, memory=memory)
    estimate = cost(hessian, parts)
    refuse_above(memory, estimate, parts)
    return hessian, parts, estimate


def _check(k: int, probes: int, method: str, density: int, layers: bool, power: bool) -> None:
    flag("curvature", "layers", layers)
    flag("curvature", "power", power)
    number("curvature", "k", k, low=1 if power else 0, whole=True)
    number("curvature", "probes", probes, low=0, whole=True)
    number("curvature", "density", density, low=0, whole=True)
    choice("curvature", "method", method, METHODS)


def _refuse_nan(model: Model) -> None:
    if not all(bool(torch.isfinite(part).all()) for part in (model.params, model.buffers)):
        raise RunError(
            "the model has parameters that are not finite, so its curvature is NaN everywhere. "
            "Analyse a model from before it diverged, or lower the learning rate of the run."
        )


def _eigenvalues(hessian: Hessian, k: int, seed: int, memory: int) -> dict[str, Any]:
    pairs = eigenvalues(hessian, k, seed=seed, memory=memory)
    result = {"eigenvalues": pairs.values.tolist(), "residuals": pairs.residuals.tolist()}
    result["lambda_1"] = result["eigenvalues"][0]
    return result | ({"ratio": ratio(pairs.values)} if k >= 5 else {})


def _sharpness(hessian: Hessian, rho: float, progress: CurvatureProgress) -> dict[str, float]:
    """Return the sharpness in SAM's ball and, with the same radius, in ASAM's."""
    objective = hessian.objective
    objective.on_share = progress.on_share
    plain = sharpness(objective.gradient, hessian.params, rho)
    adaptive = sharpness(objective.gradient, hessian.params, rho, adaptive=True)
    return {
        "rho": rho,
        "first_order": plain.first_order,
        "ascent": plain.ascent,
        "adaptive": adaptive.ascent,
    }
