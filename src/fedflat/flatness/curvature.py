"""Everything one may want to know about the curvature of a model on a set, as one JSON object."""

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
from fedflat.flatness.budget import MEMORY, Cost, Need, a_part, cost, needs, refuse_beyond
from fedflat.flatness.density import spectral_density
from fedflat.flatness.hessian import Hessian
from fedflat.flatness.objective import BATCH
from fedflat.flatness.sharpness import sharpness
from fedflat.flatness.spectrum import eigenvalues, power_iteration, ratio
from fedflat.flatness.subsample import PARTS, spread, subset
from fedflat.flatness.trace import METHODS, trace

Tell = Callable[[float, float, str], None]
"""Told after each batch: products done, products expected in all, and what they are for."""


def unheard(done: float, total: float, what: str) -> None:
    """Tell nobody."""


class Progress:
    """Counts products, and corrects what is expected as parts turn out longer or shorter than
    planned."""

    def __init__(self, plan: dict[str, float], on_progress: Tell = unheard) -> None:
        self.plan, self.on_progress = plan, on_progress
        self.done, self.total, self.what, self.weight = 0.0, float(sum(plan.values())), "", 1.0

    @contextmanager
    def part(self, what: str, weight: float = 1.0) -> Iterator[None]:
        """While a part of the plan is worked on; one of its passes over the set counts ``weight``
        products."""
        begun = self.done
        self.what, self.weight = what, weight
        yield
        self.total += self.done - begun - self.plan[what]

    def tick(self, share: float) -> None:
        """Note a share of a pass over the set."""
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
    on_progress: Tell = unheard,
) -> dict[str, Any]:
    """Loss, norm of the parameters, and the parts of the curvature that were asked for, of
    ``model`` on ``data``.

    ``k`` largest eigenvalues (0: none), by power iteration too with ``power``, which says how many
    of its are negative; the trace from ``probes`` products by ``method``; the spectral density from
    ``density`` random vectors of 90 steps each; the largest eigenvalue of each of the ``layers``;
    sharpness in balls of radius ``rho``. With ``examples`` only so many, drawn by ``seed``, are
    used; then the spread over disjoint parts of them is told as well. An analysis that would take
    more than ``memory`` bytes is refused; `expected` tells how much it takes.
    """
    used = data if examples is None else subset(data, examples, seed)
    some = len(used) < len(data) and k + probes > 0
    hessian, parts, _ = _prepare(
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
    room = a_part(memory)
    progress = Progress({name: one.products for name, one in parts.items()}, on_progress)
    hessian.tick = progress.tick
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
                Hessian, learner, model, batch_size=batch_size, hold=room, tick=progress.tick
            )
            result["subsample"] = spread(used, again, trace=probes > 0, seed=seed, memory=room)
    return result


def _spectrum(
    hessian: Hessian,
    progress: Progress,
    k: int,
    probes: int,
    method: str,
    density: int,
    layers: bool,
    power: bool,
    seed: int,
    room: int,
) -> dict[str, Any]:
    """What is asked for of the eigenvalues of the whole and of layers."""
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
            found = spectral_density(hessian, density, seed=seed, memory=room)
            result["density"] = {"x": found.x.tolist(), "y": found.y.tolist()}
    if layers:
        with progress.part("layers"):
            blocks = hessian.layers().items()
            tops = {
                name: eigenvalues(block, 1, seed=seed, memory=room).values for name, block in blocks
            }
            result["layers"] = {name: float(top[0]) for name, top in tops.items()}
    return result


def expected(
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
) -> Cost:
    """What `curvature` takes with these arguments, by a trial of one batch; refused beyond
    ``memory`` bytes."""
    used = data if examples is None else subset(data, examples)
    some = len(used) < len(data) and k + probes > 0
    _, _, found = _prepare(
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
    return found


def _prepare(
    learner: Learner, model: Model, data: ClientData, batch_size: int, memory: int, **asked: Any
) -> tuple[Hessian, dict[str, Need], Cost]:
    """The Hessian, what each part takes, and the whole cost, if it is within the limit."""
    _check(
        **{name: asked[name] for name in ("k", "probes", "method", "density", "layers", "power")}
    )
    number("curvature", "memory", memory, low=0, whole=True)
    _refuse_nan(model)
    hessian = Hessian(learner, model, data, batch_size=batch_size, hold=a_part(memory))
    parts = needs(hessian, **asked, memory=memory)
    found = cost(hessian, parts)
    refuse_beyond(memory, found, parts)
    return hessian, parts, found


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
            "the model holds numbers that are not finite, so its curvature is NaN everywhere. Look at a model from "
            "before it diverged, or lower the learning rate of the run."
        )


def _eigenvalues(hessian: Hessian, k: int, seed: int, memory: int) -> dict[str, Any]:
    pairs = eigenvalues(hessian, k, seed=seed, memory=memory)
    said = {"eigenvalues": pairs.values.tolist(), "residuals": pairs.residuals.tolist()}
    said["lambda_1"] = said["eigenvalues"][0]
    return said | ({"ratio": ratio(pairs.values)} if k >= 5 else {})


def _sharpness(hessian: Hessian, rho: float, progress: Progress) -> dict[str, float]:
    """In SAM's ball and, with the same radius, in ASAM's."""
    objective = hessian.objective
    objective.tick = progress.tick
    plain = sharpness(objective.gradient, hessian.params, rho)
    adaptive = sharpness(objective.gradient, hessian.params, rho, adaptive=True)
    return {
        "rho": rho,
        "first_order": plain.first_order,
        "ascent": plain.ascent,
        "adaptive": adaptive.ascent,
    }
