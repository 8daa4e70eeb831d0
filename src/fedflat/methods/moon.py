"""MOON: a client's features stay near those of the sent model, and away from its own last model's.

Li et al., Model-Contrastive Federated Learning, CVPR 2021.

    p, p_g, p_o   projected features by the client's model, the sent model, the client's last model
    loss  <- loss - mu log( e^{cos(p, p_g)/T} / (e^{cos(p, p_g)/T} + e^{cos(p, p_o)/T}) )

The term is a mean over the batch. A client that trains for the first time has no last model and no
term. So it is in the authors' code in round 0; later, the last model of a new client is a network
there that was initialized at random for this client. Both agree if all clients take part.

``projection`` puts two layers before the last one, as in the authors' networks: linear to the same
width, ReLU, linear to ``projection`` features, which the last layer reads. ``projection=0`` leaves
the network as it is and compares its features.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, softplus

from fedflat.client.features import check_last_layer, last_layer, observed_features
from fedflat.client.piece import BuildNetwork, ClientContext, ModelInfo, Term
from fedflat.composition.method import made_of
from fedflat.core.flat import Model
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.data.examples import Batch, arguments
from fedflat.errors import SettingError, number


def contrast(own: Tensor, sent: Tensor, last: Tensor, temperature: float) -> Tensor:
    """Return the mean over examples of ``-log`` of the share of the sent model.

    >>> one, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> round(float(contrast(one, one, other, 0.5)), 6)  # log(1 + e^-2)
    0.126928
    """
    nearer = cosine_similarity(own, sent, dim=-1) - cosine_similarity(own, last, dim=-1)
    return softplus(-nearer / temperature).mean()


@dataclass(frozen=True, repr=False)
class ModelContrast(Term):
    """``mu`` times the contrast between the sent model's features and the last model's.

    mu
        Weight of the term, at least 0.
    T
        Temperature, above 0.
    projection
        Number of projected features; 0: no projection.
    """

    mu: Scalar = 1.0
    T: float = 0.5
    projection: int = 256

    key = "moon"
    state_vectors = 1

    def __post_init__(self) -> None:
        scalar("moon", "mu", self.mu)
        number("moon", "T", self.T, low=0, open_low=True)
        number("moon", "projection", self.projection, low=0, whole=True)

    def check(self, model_info: ModelInfo) -> None:
        """Refuse a network without a linear last layer."""
        check_last_layer("moon", model_info)

    def module(self, build: BuildNetwork, sample: Tensor) -> nn.Module:
        """Return the network with the projection before its last layer."""
        network = build()
        if not self.projection:
            return network
        network = copy.deepcopy(network)  # it may be the user's own
        name = last_layer(network)
        layer = network.get_submodule(name)
        if not isinstance(layer, nn.Linear) or not name:
            raise SettingError(
                f"moon puts a projection before a linear last layer, found {type(layer).__name__}. "
                "Use a network that ends in nn.Linear, or projection=0."
            )
        width, wide = layer.in_features, self.projection
        parts = [nn.Linear(width, width), nn.ReLU(), nn.Linear(width, wide)]
        last = nn.Linear(wide, layer.out_features, bias=layer.bias is not None)
        parent, _, leaf = name.rpartition(".")
        projected = OrderedDict(projection=nn.Sequential(*parts), last=last)
        setattr(network.get_submodule(parent), leaf, nn.Sequential(projected))
        return network

    def hooks(self, module: nn.Module) -> AbstractContextManager[list[Tensor]]:
        """Collect the projected features."""
        return observed_features(module)

    def loss(self, v: ClientContext, batch: Batch, output: Tensor, seen: list[Tensor]) -> Tensor:
        if "last" not in v.state:
            return output.new_zeros(())
        if v.scratch.get("batch") is not batch:
            sent = _features(v, Model(v.sent, v.sent_buffers), batch)
            last = _features(v, Model(v.state["last"], v.state["buffers"]), batch)
            v.scratch |= {"batch": batch, "features": (sent, last)}
        sent, last = v.scratch["features"]
        return at(self.mu, v.round) * contrast(seen[0], sent, last, self.T)

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Store the client's own model for the next time it trains."""
        v.scratch["own"] = v.end
        return w

    def end_buffers(self, v: ClientContext, b: Tensor) -> Tensor:
        """Store the running statistics with it."""
        v.state["last"], v.state["buffers"] = v.scratch["own"], b.clone()
        return b


def _features(v: ClientContext, model: Model, batch: Batch) -> Tensor:
    def read(module: nn.Module) -> Tensor:
        with observed_features(module) as seen, torch.no_grad():
            module(*arguments(batch.inputs))
        return seen[0]

    found: Tensor = v.value_of(read, model)
    return found


@made_of(ModelContrast)
def moon() -> None:
    """Features near the sent model's and away from the last model's (Li et al., CVPR 2021)."""
