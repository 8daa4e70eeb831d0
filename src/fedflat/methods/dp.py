"""Client-level differential privacy: whole updates are clipped and noised, clients count equally.

McMahan et al., Learning Differentially Private Recurrent Language Models, ICLR 2018; with local SAM
it is DP-FedSAM (Shi et al., Make Landscape Flatter in Differentially Private Federated Learning,
CVPR 2023).

    client   Delta_k  <-  Delta_k min(1, C / ||Delta_k||) + N(0, sigma^2 C^2 / S)
    server   w  <-  w - (1/S) sum_k Delta_k

The sum of S replies has noise of standard deviation ``sigma C``. The server adds the noise of
replies that did not come, and always divides by S, the (expected) size of the cohort. The public
code of DP-FedSAM clips and noises each tensor separately and weights replies by size, so that its
budget is too small; we follow the paper.

The budget covers the models. It does not cover the number of examples and the training loss that
replies also carry. What else would leave a client is refused (`fedflat.experiments.population`).
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, ModelInfo, Piece
from fedflat.client.private_parameters import Private
from fedflat.client.sharpness import Sam
from fedflat.composition.method import Method, method
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar
from fedflat.core.seeds import torch_generator
from fedflat.core.stage import Stage
from fedflat.errors import SettingError, flag, number
from fedflat.server.piece import Send, ServerContext, ServerPiece
from fedflat.server.privacy_accountant import epsilon, require_accountant

KEY = "dp"
STD = "std"
"""The tensor that the server sends: the standard deviation of a client's noise."""


def clipped(delta: Tensor, limit: float) -> Tensor:
    """Return the vector, scaled down to the length ``limit`` if it is longer.

    >>> clipped(torch.tensor([3.0, 4.0]), 1.0), clipped(torch.tensor([3.0, 4.0]), 10.0)
    (tensor([0.6000, 0.8000]), tensor([3., 4.]))
    """
    length = float(torch.linalg.vector_norm(delta, dtype=torch.float64))
    return delta if length <= limit else delta * (limit / length)


def _normal(like: Tensor, generator: torch.Generator) -> Tensor:
    drawn = torch.randn(like.shape, generator=generator, dtype=torch.float64)
    return drawn.to(like)


@dataclass(frozen=True, repr=False)
class ClippedNoise(Piece):
    """Clips and noises the update before it leaves the client."""

    clip: float = 1.0
    secret: bool = False

    stage, key = Stage.PRIVACY, KEY
    needs_server_model = True

    def check(self, model_info: ModelInfo) -> None:
        """Refuse running statistics that would leave the client beside the update."""
        kept = {
            name
            for piece in model_info.pieces
            if isinstance(piece, Private)
            for name in piece.norms(model_info.layout)
        }
        if set(model_info.layout.batchnorms) - kept:
            raise SettingError(
                "dp: the model has batch normalisation, whose running statistics would leave the "
                "client without noise. Use a model with GroupNorm, or add silobn()."
            )

    def upload(self, v: ClientContext, delta: Tensor) -> Tensor:
        delta = clipped(delta, self.clip)
        std = float(v.inbox[STD])
        if not std:
            return delta
        generator = _secret() if self.secret else v.rng
        return delta + std * _normal(delta, generator)


@dataclass(frozen=True, repr=False)
class PrivateMean(ServerPiece):
    """Sends the standard deviation of the noise, divides by the cohort, and counts the budget."""

    noise: float = 1.0
    clip: float = 1.0
    delta: float = 1e-5
    secret: bool = False

    stage, key = Stage.BATCH, KEY

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Return the mean of the cohort with all of its noise."""
        cohort = context.run.cohort
        total = self.noise * self.clip
        std = torch.tensor(total / math.sqrt(cohort), dtype=torch.float64)
        replies = send(broadcast.enclose(self.key, **{STD: std}))
        mean = replies.uniform
        if replies.count != cohort:
            mean = mean * (replies.count / cohort)
        missing = total * math.sqrt(max(0.0, 1 - replies.count / cohort))
        if missing:
            generator = (
                _secret()
                if self.secret
                else torch_generator(context.run.seed, "dp", broadcast.round)
            )
            mean = mean + (missing / cohort) * _normal(mean, generator)
        if self.noise and context.run.known:
            context.metrics["epsilon"] = epsilon(
                noise=self.noise,
                delta=self.delta,
                rounds=broadcast.round + 1,
                cohort=cohort,
                population=replies.population,
                sampler=context.run.sampler,
            )
        return replace(replies, delta=mean, uniform=mean)


def _secret() -> torch.Generator:
    return torch.Generator().manual_seed(secrets.randbits(63))


@method
def dp(
    noise: float = PrivateMean.noise,
    clip: float = PrivateMean.clip,
    delta: float = PrivateMean.delta,
    secret: bool = PrivateMean.secret,
) -> Method:
    """Client-level differential privacy: clipped updates with noise (McMahan et al., ICLR 2018).

    ``noise`` is the noise multiplier sigma: the sum of a cohort gets noise of standard deviation
    ``noise * clip``. Every evaluation has ``epsilon`` for this ``delta``. The noise comes from the
    run's seed, so that a simulation can be repeated; every participant knows that seed.
    ``secret=True`` draws it from the operating system, as a deployment must.
    """
    number("dp", "noise", noise, low=0)
    number("dp", "clip", clip, low=0, open_low=True)
    number("dp", "delta", delta, low=0, high=1, open_low=True)
    flag("dp", "secret", secret)
    if noise:
        require_accountant()
    return Method(
        client=(ClippedNoise(clip, secret),),
        server=(PrivateMean(noise, clip, delta, secret),),
        weighting="uniform",
    )


@method
def dp_fedsam(
    rho: Scalar = 0.5,
    noise: float = 0.95,
    clip: float = 0.2,
    delta: float = PrivateMean.delta,
    secret: bool = PrivateMean.secret,
) -> Method:
    """Local SAM with client-level differential privacy (Shi et al., CVPR 2023)."""
    return Method(client=(Sam(rho),)) + dp(noise, clip, delta, secret)
