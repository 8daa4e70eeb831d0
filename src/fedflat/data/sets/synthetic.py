"""Synthetic clients drawn from the seed when needed: linear labels, two kinds of heterogeneity.

After Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020 (FedProx), section
5.1:

    s_j = j^-0.6                              the deviation of feature j: its variance is j^-1.2
    x   = s (z + beta v_k)                    an input of client k; z and v_k standard normal
    y   = argmax((W + alpha U_k) [x, 1])      its label; W (shared) and U_k (its own) normal

In FedProx a client's own model has nothing in common with the others' for any alpha, so no model
can serve all clients. Here ``alpha = 0`` is one model for all, and ``alpha = beta = 0`` is IID. The
larger alpha, the less the models agree; the larger beta, the further apart are the inputs and so
the labels of the clients.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from fedflat.core.seeds import torch_generator
from fedflat.data.examples import ClientData, Examples
from fedflat.data.federation import DataSpec, OnDemand
from fedflat.errors import LARGEST_SEED, MOST_AT_ONCE, MOST_WEIGHTS, number
from fedflat.registry.specs import register

TESTED = 500
"""Most clients with examples in the test set."""
TEST = 2_000
"""Least number of examples in the test set."""


@dataclass(frozen=True, repr=False)
class Synthetic(DataSpec):
    """Any number of clients, drawn from the seed (after FedProx's synthetic(alpha, beta)).

    clients
        The number of clients, K: ten or ten million cost the same.
    examples
        Examples per client.
    features, classes
        The length of an input, and the number of classes.
    alpha
        How much the clients' models differ, from 0.
    beta
        How far apart the clients' inputs are, in standard deviations, from 0.
    seed
        Seed of everything. ``None``: the seed of the run.

    The test set has new examples of up to 500 clients, evenly spaced.

    >>> fed = synthetic(clients=10**6).open(seed=0)
    >>> fed.population, len(fed.data(999_999)), fed.shape
    (1000000, 20, (64,))
    """

    origin = "is drawn from the seed"

    _: KW_ONLY
    clients: int = 1000
    examples: int = 20
    features: int = 64
    classes: int = 10
    alpha: float = 0.5
    beta: float = 0.5
    seed: int | None = None

    def __post_init__(self) -> None:
        number("synthetic", "clients", self.clients, low=1, whole=True)
        for name in ("examples", "features"):
            number("synthetic", name, getattr(self, name), low=1, high=MOST_AT_ONCE, whole=True)
        number("synthetic", "classes", self.classes, low=2, high=MOST_AT_ONCE, whole=True)
        numbers = self.features * (self.examples + self.classes)
        number("synthetic", "features times examples and classes", numbers, high=MOST_WEIGHTS)
        number("synthetic", "alpha", self.alpha, low=0)
        number("synthetic", "beta", self.beta, low=0)
        if self.seed is not None:
            number("synthetic", "seed", self.seed, low=0, high=LARGEST_SEED, whole=True)

    def open(self, seed: int) -> OnDemand:
        maker = SyntheticMaker(self, seed if self.seed is None else self.seed)
        return OnDemand(self.clients, maker, maker.test())


class SyntheticMaker:
    """Draws the examples of a client; its size does not depend on the number of clients."""

    def __init__(self, spec: Synthetic, seed: int) -> None:
        self.spec, self.seed = spec, seed
        self.rule = torch.randn(
            spec.features + 1, spec.classes, generator=torch_generator(seed, "synthetic/rule")
        )
        self.spread = torch.arange(1, spec.features + 1, dtype=torch.float32) ** -0.6

    def __call__(self, client: int) -> Examples:
        return self._draw(client, None)

    def test(self) -> ClientData:
        """New examples of clients that are evenly spaced."""
        spec = self.spec
        count = min(spec.clients, TESTED)
        each = -(-TEST // count)
        sets = [self._draw(place * spec.clients // count, each) for place in range(count)]
        x, y = torch.cat([part.inputs for part in sets]), torch.cat([part.targets for part in sets])
        return ClientData(Examples(x, y, spec.classes), torch.arange(len(y)))

    def _draw(self, client: int, more: int | None) -> Examples:
        """A client's training examples, or ``more`` new examples of it."""
        spec = self.spec
        rng = torch_generator(self.seed, "synthetic/client", client)
        sizes = ((spec.features + 1) * spec.classes, spec.features, spec.examples * spec.features)
        own, shift, z = torch.randn(sum(sizes), generator=rng).split(sizes)
        if more is not None:
            z = torch.randn(more * spec.features, generator=rng)
        rule = torch.add(self.rule, own.view_as(self.rule), alpha=spec.alpha)
        x = torch.add(z.view(-1, spec.features), shift, alpha=spec.beta).mul_(self.spread)
        return Examples(x, _labels(rule, x), spec.classes)


def _labels(rule: Tensor, x: Tensor) -> Tensor:
    return torch.addmm(rule[-1], x, rule[:-1]).argmax(1)


synthetic = register("data set", "synthetic")(Synthetic)
