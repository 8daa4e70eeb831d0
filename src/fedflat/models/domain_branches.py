"""A network with one branch per domain in some of its layers, and a classifier of domains.

    layer        z = f_a(h) + lambda sum_d w_d f_d(h)
    parameters   of f_d: row d of relu(A V W)

``V`` has one row per domain: the weight of the layer row by row, then its bias. ``A`` is the graph
of domains (`fedflat.models.domain_graph`), a buffer. ``W`` is a matrix, a product of two thin ones,
or absent. The weights ``w`` are one-hot where the domain of an image is given as a second input, or
that of all images in a buffer. Otherwise they are the classifier's probabilities, its largest one,
or equal.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from fedflat.errors import SettingError, nearest

NETWORKS = "networks"
DOMAIN = "domain"
"""Name of the buffer with the domain of all examples; -1 if it is not known."""


class DomainModels(nn.Module):
    """A network for each domain. An example of unknown domain gets the mean of all outputs."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.register_buffer(DOMAIN, torch.full((1,), -1.0))
        self.networks = nn.ModuleList(networks)

    def forward(self, x: Tensor, domains: Tensor | None = None) -> Tensor:
        """The output of each example's own network."""
        if domains is None:
            return self._alike(x, int(self.get_buffer(DOMAIN)))
        places = [(domains == d).nonzero().squeeze(1) for d in range(len(self.networks))]
        found = [
            network(x.index_select(0, place))
            for network, place in zip(self.networks, places, strict=True)
            if len(place)
        ]
        return torch.cat(found).index_select(0, torch.cat(places).argsort())

    def _alike(self, x: Tensor, domain: int) -> Tensor:
        if domain >= 0:
            output: Tensor = self.networks[domain](x)
            return output
        return torch.stack([network(x) for network in self.networks]).mean(0)


LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
"""Layers that can have branches."""
LAST, ALL = "last", "all"
FULL, BOTTLENECK, OFF, AUTO = "full", "bottleneck", "off", "auto"
MOST_ENTRIES = 1 << 23
"""Most entries of a full ``W``; above it, "auto" is a bottleneck."""
STUDENT = "student"
"""Name of the classifier of domains in the module."""
BRANCHES = "branches"
"""Name of ``V`` in a layer."""
ADJACENCY = "adjacency"
"""Name of the buffer ``A``."""


@dataclass(frozen=True)
class BranchSettings:
    """How the branches of a layer are made."""

    domains: int
    agnostic: bool = True
    """False: the layer has branches only, without ``f_a`` and ``lambda``."""
    projection: str = AUTO
    """``W``: "full", "bottleneck", "off", or "auto": full up to `MOST_ENTRIES` entries."""
    rank: int = 64
    """Inner width of a bottleneck."""
    residual: bool = False
    """True: the bottleneck is added to the identity."""
    relu: bool = True
    weight: float = 0.0
    """The first value of ``lambda``."""
    learn_weight: bool = True


class BranchedLayer(nn.Module):
    """A linear layer or convolution with a branch for each domain."""

    route: Tensor | None
    """Domain of each example, or weights of all domains, one row per example; set for a pass."""
    graph: Tensor | None
    """The matrix A; set for a pass."""

    def __init__(self, layer: nn.Module, drawn: Sequence[nn.Module], how: BranchSettings) -> None:
        super().__init__()
        self.relu = how.relu
        self.route = self.graph = None
        self.shape = tuple(_weight(layer).shape)
        self.biased = layer.bias is not None
        self.branches = nn.Parameter(torch.stack([parameter_row(one) for one in drawn]))
        self._add_projection(self.branches.shape[1], how)
        self.layer = layer if how.agnostic else _without_parameters(layer)
        self.agnostic = how.agnostic
        self.weight: nn.Parameter | float = how.weight
        if how.agnostic and how.learn_weight:
            self.weight = nn.Parameter(torch.tensor([float(how.weight)]))

    def _add_projection(self, size: int, how: BranchSettings) -> None:
        kind = how.projection
        if kind == AUTO:
            kind = FULL if size * size <= MOST_ENTRIES else BOTTLENECK
        self.residual = kind == BOTTLENECK and how.residual
        self.factors = {FULL: 1, BOTTLENECK: 2, OFF: 0}[kind]
        if kind == FULL:
            self.projection = nn.Parameter(torch.eye(size))
        elif kind == BOTTLENECK:
            inner = torch.linalg.qr(torch.randn(size, min(how.rank, size)))[0].contiguous()
            outer = torch.zeros_like(inner.T) if how.residual else inner.T.clone()
            self.projection_in, self.projection_out = nn.Parameter(inner), nn.Parameter(outer)

    def rows(self, graph: Tensor) -> Tensor:
        """The parameters of all branches, one row per domain: ``relu(A V W)``."""
        mixed = graph @ self.branches
        if self.factors == 1:
            mixed = mixed @ self.projection
        elif self.factors == 2:
            projected = mixed @ self.projection_in @ self.projection_out
            mixed = mixed + projected if self.residual else projected
        return mixed.relu() if self.relu else mixed

    def forward(self, h: Tensor) -> Tensor:
        """The layer's output, with the branches of each example's domain."""
        assert self.route is not None, "no domains were given"
        assert self.graph is not None, "no graph was given"
        rows, route = self.rows(self.graph), self.route
        if not route.is_floating_point() and h.device.type != "cpu":
            # All branches of all images: selecting images would make the host wait for the device.
            domains = torch.arange(len(rows), device=h.device)
            route = (route.unsqueeze(1) == domains).to(h.dtype)
        if route.is_floating_point():
            outputs = self._weighted(h, rows, route)
        else:
            outputs = self._selected(h, rows, route)
        if not self.agnostic:
            return outputs
        agnostic: Tensor = self.layer(h)
        return agnostic + self.weight * outputs

    def _weighted(self, h: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
        total: Tensor | None = None
        for row, weight in zip(rows, weights.T, strict=True):
            output = self._branch(h, row)
            part = weight.view(-1, *(1,) * (output.dim() - 1)) * output
            total = part if total is None else total + part
        assert total is not None
        return total

    def _selected(self, h: Tensor, rows: Tensor, domains: Tensor) -> Tensor:
        places = [(domains == d).nonzero().squeeze(1) for d in range(len(rows))]
        found = [
            self._branch(h.index_select(0, place), row)
            for row, place in zip(rows, places, strict=True)
            if len(place)
        ]
        return torch.cat(found).index_select(0, torch.cat(places).argsort())

    def _branch(self, h: Tensor, row: Tensor) -> Tensor:
        size = torch.Size(self.shape).numel()
        weight, bias = row[:size].view(self.shape), row[size:] if self.biased else None
        if isinstance(self.layer, nn.Linear):
            return linear(h, weight, bias)
        output: Tensor = self.layer._conv_forward(h, weight, bias)  # type: ignore[operator]
        return output


class DomainNetwork(nn.Module):
    """A network whose layers ``names`` have branches, and a classifier of domains, if any.

    The classifier comes first among the parameters, so that the last layer stays the last.
    """

    def __init__(
        self,
        network: nn.Module,
        names: Sequence[str],
        drawn: Sequence[nn.Module],
        how: BranchSettings,
        graph: Tensor,
        student: nn.Module | None,
        *,
        soft: bool = True,
        by_client: bool = False,
    ) -> None:
        super().__init__()
        self.domains, self.soft, self.names = how.domains, soft, tuple(names)
        self.register_buffer(ADJACENCY, graph.clone())
        if by_client:
            self.register_buffer(DOMAIN, torch.full((1,), -1.0))
        if student is not None:
            self.student = student
        for name in names:
            layer = BranchedLayer(
                network.get_submodule(name), [one.get_submodule(name) for one in drawn], how
            )
            parent, _, own = name.rpartition(".")
            setattr(network.get_submodule(parent), own, layer)
        self.network = network
        head: Sequence[str] | None = getattr(network, "head_layers", None)
        if head is not None:
            self.head_layers = tuple(f"network.{name}" for name in head)

    def forward(self, x: Tensor, domains: Tensor | None = None) -> Any:
        """The network's output; ``domains`` are the domains of the examples, if known."""
        route = self.weights(x) if domains is None else domains
        graph = self.get_buffer(ADJACENCY).to(next(self.network.parameters()).dtype)
        layers = [self.network.get_submodule(name) for name in self.names]
        for layer in layers:
            assert isinstance(layer, BranchedLayer)
            layer.route, layer.graph = route, graph
        try:
            return self.network(x)
        finally:
            for layer in layers:
                layer.route = layer.graph = None  # type: ignore[assignment]

    @torch.no_grad()
    def weights(self, x: Tensor) -> Tensor:
        """The weight of each domain, or the domain, of examples of unknown domain."""
        if not hasattr(self, STUDENT):
            domain = int(self.get_buffer(DOMAIN)) if hasattr(self, DOMAIN) else -1
            if domain >= 0:
                return torch.full((len(x),), domain, device=x.device)
            return x.new_full((len(x), self.domains), 1 / self.domains)
        scores: Tensor = self.student(x)
        return scores.softmax(1) if self.soft else scores.argmax(1)


def parameter_row(layer: nn.Module) -> Tensor:
    """The parameters of a layer as a vector: the weight row by row, then the bias."""
    assert isinstance(layer, LAYERS)
    parts = [layer.weight, *([layer.bias] if layer.bias is not None else [])]
    return torch.cat([part.detach().reshape(-1) for part in parts])


def candidates(network: nn.Module) -> list[str]:
    """The names of the layers that can have branches."""
    return [name for name, part in network.named_modules() if isinstance(part, LAYERS) and name]


def layers_with_branches(
    network: nn.Module, layers: str | tuple[str, ...], sample: Tensor
) -> list[str]:
    """The names of the layers that ``layers`` means: "last", "all", or names.

    The last layer is the one that computes the output. Raises `SettingError` if there is none, or
    if a name does not exist.
    """
    known = candidates(network)
    if layers == ALL and known:
        return known
    if layers in (LAST, ALL):
        last = _output_layer(network, known, sample)
        if last is None:
            raise SettingError(
                "fedcg: the output of this model is not that of a linear layer or a convolution, "
                "so its last layer is not known. Name the layers for the branches: "
                f"layers=[...] of {', '.join(known)}."
            )
        return [last]
    wanted = [layers] if isinstance(layers, str) else list(layers)
    for name in wanted:
        if name not in known:
            raise SettingError(
                f"fedcg: the model has no linear layer or convolution {name!r} for branches."
                f"{nearest(name, known)} Use 'last', 'all', or some of {', '.join(known)}."
            )
    return wanted


def _output_layer(network: nn.Module, names: Sequence[str], sample: Tensor) -> str | None:
    """The layer whose output is the network's output, found in one forward pass of a copy."""
    trial = copy.deepcopy(network).eval()
    seen: dict[str, Any] = {}
    for name in names:
        trial.get_submodule(name).register_forward_hook(_remember(seen, name))
    with torch.no_grad():
        kind = torch.float32 if sample.is_floating_point() else sample.dtype
        output = trial(torch.zeros(sample.shape, dtype=kind))
    found = [name for name, value in seen.items() if value is output]
    return found[0] if found else None


def _remember(seen: dict[str, Any], name: str) -> Callable[..., None]:
    def hook(part: nn.Module, inputs: object, output: object) -> None:
        seen[name] = output

    return hook


def redrawn(network: nn.Module, again: Callable[[], nn.Module], count: int) -> list[nn.Module]:
    """``count`` networks like ``network`` with other random parameters.

    A module that was given with its weights is copied, and its layers draw new ones.
    """
    drawn = [again() for _ in range(count)]
    if any(_same(one, network) for one in drawn):
        drawn = [copy.deepcopy(network) for _ in range(count)]
        for one in drawn:
            for name in candidates(one):
                one.get_submodule(name).reset_parameters()  # type: ignore[operator]
    return drawn


def _same(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def _weight(layer: nn.Module) -> Tensor:
    assert isinstance(layer, LAYERS)
    return layer.weight


def _without_parameters(layer: nn.Module) -> nn.Module:
    """The same layer without parameters: only its shape, stride and padding are used."""
    bare = copy.deepcopy(layer)
    bare.weight = bare.bias = None  # type: ignore[assignment]
    return bare
