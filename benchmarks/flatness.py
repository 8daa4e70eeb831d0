"""What it costs to see the flatness: a Hessian-vector product, eigenvalues and a surface of the
papers' CNN."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from workloads import SIZES

from fedflat.data.examples import ClientData
from fedflat.data.federation import PartitionedFederation
from fedflat.experiments.prepare import prepare
from fedflat.flatness.hessian import Hessian
from fedflat.flatness.points import measure
from fedflat.flatness.spectrum import eigenvalues
from fedflat.flatness.surface import Surface
from fedflat.kernels.allocator import keep_memory


class Flatness:
    """One model, on one set of images."""

    def __init__(self, size: str) -> None:
        keep_memory()
        setup = prepare(SIZES[size]["w1"].experiment())
        assert isinstance(setup.fed, PartitionedFederation)
        count, self.points = (1000, 25) if size == "full" else (16, 3)
        self.learner, self.model = setup.job.learner, setup.job.learner.initial()
        self.data = ClientData(setup.fed.train, torch.arange(count))
        self.hessian = Hessian(self.learner, self.model, self.data, hold=0)
        self.held = Hessian(self.learner, self.model, self.data)
        self.vector = torch.randn(
            len(self.model.params), generator=torch.Generator().manual_seed(0)
        )
        self.product(self.held)  # builds the graph that is held

    def gradient(self) -> None:
        """The gradient on all images."""
        self.hessian.objective.gradient(self.model.params)

    def product(self, hessian: Hessian) -> None:
        """One product with the Hessian."""
        hessian @ self.vector

    def costs(self, repeats: int) -> tuple[list[float], list[float]]:
        """Times of a product to that of a gradient, in turn: with nothing held from the one before,
        and with graphs."""
        plain, held = [], []
        for _ in range(repeats):
            gradient = _seconds(self.gradient)
            plain.append(_seconds(lambda: self.product(self.hessian)) / gradient)
            held.append(_seconds(lambda: self.product(self.held)) / gradient)
        return plain, held

    def top(self) -> float:
        """Seconds for the five largest eigenvalues."""
        fresh = Hessian(self.learner, self.model, self.data)
        return _seconds(lambda: eigenvalues(fresh, 5, seed=0))

    def surface(self) -> float:
        """Seconds for a surface."""
        land = Surface(
            self.model.params, self.learner.flat.layout, points=self.points, span=1.0, seed=0
        )
        return _seconds(lambda: measure(self.learner, self.model.buffers, land, self.data))


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
