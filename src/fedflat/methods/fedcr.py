"""FedCR: clients share the distribution of each class's features; heads are private.

Zhang et al., FedCR: Personalized Federated Learning Based on Across-Client Common Representation
with Conditional Mutual Information Regularization, ICML 2023.

    model    the encoder gives a Gaussian q(z|x); the head reads samples of z
    client   loss = CE(mean over samples) + beta KL(prior_y || q(z|x)),   prior_y of class y
             in the last epoch: sends the product of the Gaussians q(z|x) of each class
    server   averages the encoder uniformly, multiplies the clients' class Gaussians, and
             prior <- mix prior + (1 - mix) product

Use it with the ``stochastic`` model. Our choices where the paper does not specify: class
probabilities (not scores) are averaged over samples; mean and variance of the prior are mixed
separately; a class without examples keeps its prior, N(0, 1) at first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedflat.client.piece import ClientContext, ModelInfo, Term
from fedflat.client.private_parameters import Private
from fedflat.composition.method import Method, method
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.data.examples import Batch
from fedflat.errors import SettingError, number
from fedflat.models.wrapped import StochasticNet, gaussian
from fedflat.server.piece import Send, ServerContext, ServerPiece


@dataclass(frozen=True, repr=False)
class CommonRepresentation(Term):
    """The client's half: features of a class stay near the server's Gaussian of it."""

    beta: Scalar

    key = "fedcr"
    needs_server_model = True
    uploads_statistics = "precision and weighted mean of its features, by class"

    def __post_init__(self) -> None:
        scalar("fedcr", "beta", self.beta)

    def check(self, model_info: ModelInfo) -> None:
        """Refuse a network without Gaussian features, and a task without classes."""
        if not model_info.task.classifies:
            raise SettingError(
                f"fedcr has a Gaussian for each class, but {model_info.task} has no classes. Use "
                "classification()."
            )
        if not isinstance(model_info.module, StochasticNet):
            raise SettingError(
                "fedcr needs a network with Gaussian features, found "
                f"{type(model_info.module).__name__}. Use --model 'stochastic(cnn())'."
            )

    @contextmanager
    def hooks(self, module: nn.Module) -> Iterator[list[Tensor]]:
        """Collect the encoder's output during the forward pass."""
        seen: list[Tensor] = []
        assert isinstance(module, StochasticNet)

        def record(part: nn.Module, inputs: object, output: Tensor) -> None:
            seen.append(output)

        hook = module.encoder.register_forward_hook(record)
        try:
            yield seen
        finally:
            hook.remove()

    def loss(self, v: ClientContext, batch: Batch, output: Tensor, seen: list[Tensor]) -> Tensor:
        """Return ``beta KL(prior_y || q)``, mean over the batch."""
        mean, spread = gaussian(seen[0])
        self._gather(v, batch.labels, output.shape[1], mean.detach(), spread.detach())
        prior_mean = v.inbox["mean"][batch.labels] if "mean" in v.inbox else torch.zeros_like(mean)
        prior_var = (
            v.inbox["variance"][batch.labels] if "variance" in v.inbox else torch.ones_like(mean)
        )
        var = spread.square()
        kl = 0.5 * ((var / prior_var).log() + (prior_var + (prior_mean - mean).square()) / var - 1)
        return at(self.beta, v.round) * kl.sum(dim=-1).mean()

    def _gather(
        self, v: ClientContext, y: Tensor, classes: int, mean: Tensor, spread: Tensor
    ) -> None:
        """In the last epoch, multiply the Gaussians of each class: precisions add up."""
        if (
            v.steps < v.planned_steps - v.planned_steps / max(v.epochs, 1.0)
            or v.scratch.get("step") == v.steps
        ):
            return
        v.scratch["step"] = v.steps
        empty = mean.new_zeros(classes, mean.shape[1])
        precision = spread.square().reciprocal()
        v.outbox["precision"] = v.outbox.get("precision", empty).index_add(0, y, precision)
        v.outbox["weighted"] = v.outbox.get("weighted", empty).index_add(0, y, precision * mean)


@dataclass(frozen=True, repr=False)
class ServerRepresentation(ServerPiece):
    """The server's half: a Gaussian for each class."""

    mix: float

    stage, key = Stage.CORRECT, "fedcr"
    stateful = True

    def __post_init__(self) -> None:
        number("fedcr", "mix", self.mix, low=0, high=1)

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Send the Gaussians with the model, and compute the new ones."""
        replies = send(broadcast.enclose(self.key, **context.state) if context.state else broadcast)
        precision = replies.mean(self.key, "precision") * replies.count
        weighted = replies.mean(self.key, "weighted") * replies.count
        seen = precision > 0
        old_mean = context.state.get("mean", torch.zeros_like(precision))
        old_var = context.state.get("variance", torch.ones_like(precision))
        safe = torch.where(seen, precision, 1.0)
        context.state["mean"] = torch.where(
            seen, torch.lerp(weighted / safe, old_mean, self.mix), old_mean
        )
        context.state["variance"] = torch.where(
            seen, torch.lerp(1 / safe, old_var, self.mix), old_var
        )
        return replies


@method
def fedcr(beta: Scalar = 1e-3, mix: float = 0.5) -> Method:
    """Common class representations across clients, private heads (Zhang et al., ICML 2023)."""
    client = (CommonRepresentation(beta), Private("head"))
    return Method(client=client, server=(ServerRepresentation(mix),), weighting="uniform")
