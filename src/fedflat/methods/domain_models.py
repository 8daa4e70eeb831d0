"""A whole model for each known domain, trained and tested on its own images only.

Caldarola's doctoral thesis, section 5.4, first row of Table 5.9: "domain-specific models". It
prints no more about them. Ours:

    client k   each batch: network d takes a step on the mean loss of the batch's images of domain d
    server     w_d <- w_d + sum_k n_kd (w_kd - w_d) / sum_k n_kd;   no image of d: no change

``n_kd`` is the number of images of domain d at client k. All networks start alike. Running
statistics are averaged by all images of a client.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedflat.client.piece import BuildNetwork, ClientContext, ModelInfo, Piece
from fedflat.composition.method import Method, method
from fedflat.core.flat import GradFn, Layout
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.stage import Stage
from fedflat.data.domain_inputs import DomainInputs
from fedflat.data.examples import Batch, ClientData
from fedflat.errors import SettingError, number
from fedflat.models.domain_branches import NETWORKS, DomainModels
from fedflat.server.piece import Send, ServerContext, ServerPiece

KEY = "domain_models"


@dataclass(frozen=True, repr=False)
class SeparateModels(Piece):
    """The client's half: each network learns from the images of its domain."""

    domains: int = 4

    stage, key = Stage.CORRECT, KEY
    uploads_statistics = "share of its images of each domain"
    needs_server_model = True

    def __post_init__(self) -> None:
        number(KEY, "domains", self.domains, low=1, high=4096, whole=True)

    @property
    def known_domains(self) -> int:
        return self.domains

    def module(self, build: BuildNetwork, sample: Tensor) -> nn.Module:
        """Return as many networks as domains, all with the same first parameters."""
        state = torch.random.get_rng_state()
        networks = []
        for _ in range(self.domains):
            torch.random.set_rng_state(state)
            networks.append(build())
        return DomainModels(networks)

    def check(self, model_info: ModelInfo) -> None:
        """Refuse pieces that change batches, whose images have their domains."""
        for piece in model_info.pieces:
            if type(piece).batch is not Piece.batch and piece is not self:
                raise SettingError(
                    f"{self} sends each image to the network of its domain, and {piece} changes "
                    "images. Leave one of them out."
                )

    def data(self, v: ClientContext, data: ClientData) -> ClientData:
        """Count the client's images of each domain."""
        assert isinstance(data.examples, DomainInputs)
        numbers = data.examples.numbers.index_select(0, data.index)
        self.count(v, torch.bincount(numbers, minlength=self.domains))
        return data

    def count(self, v: ClientContext, counts: Tensor) -> None:
        """Keep the share of the client's images of each domain, and send it."""
        v.scratch["shares"] = v.outbox["shares"] = (counts / counts.sum()).to(v.sent.dtype)

    def batch(self, v: ClientContext, batch: Batch) -> Batch:
        """Keep the shares of the batch's images of each domain."""
        domains = torch.arange(self.domains, device=batch.first.device)
        v.scratch["batch"] = (batch.inputs[1].unsqueeze(0) == domains.unsqueeze(1)).sum(1)
        return batch

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return the gradient in which each network has the mean of its own images."""
        counts = v.scratch["batch"]
        factors = counts.sum() / counts.clamp(min=1)
        return grad(w) * per_domain(v.layout, factors.to(w.dtype))

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Return each network's change, scaled by the client's share of its images."""
        return v.sent + (w - v.sent) * per_domain(v.layout, v.scratch["shares"])


def per_domain(layout: Layout, values: Tensor) -> Tensor:
    """A vector of the model's size with the value of each domain in its network's place."""
    owners = [
        int(name.removeprefix(f"{NETWORKS}.").partition(".")[0]) if NETWORKS in name else 0
        for name in layout.names
    ]
    sizes = torch.tensor(layout.sizes, device=values.device)
    return values[torch.tensor(owners, device=values.device)].repeat_interleave(sizes)


@dataclass(frozen=True, repr=False)
class SeparateMeans(ServerPiece):
    """The server's half: the mean of each network over the clients that hold its domain."""

    domains: int = 4

    stage, key = Stage.TERM, KEY

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Divide each network's mean change by the mean share of its images."""
        replies = send(broadcast)
        if context.learner is None:
            return replies
        shares = replies.mean(self.key, "shares", replies.weighting)
        factors = torch.where(shares > 0, 1 / shares.clamp(min=1e-12), 0.0)
        scale = per_domain(context.learner.flat.layout, factors)
        return replies.transformed(lambda mean: mean * scale)


@method
def domain_models(domains: int = SeparateModels.domains) -> Method:
    """A whole model for each known domain, without anything shared (thesis, Table 5.9).

    domains
        Number of known domains of the data.
    """
    return Method(client=(SeparateModels(domains),), server=(SeparateMeans(domains),))
