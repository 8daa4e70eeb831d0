"""FedSWA and FedMoSWA: a learning rate that falls during local training, and an extrapolating
server.

Liu et al., Improving Generalization in Federated Learning with Highly Heterogeneous Data via
Momentum-Based Stochastic Controlled Weight Averaging, ICML 2025.

    step i of tau has the rate   r_i = lr (1 - i/tau) + rho lr i/tau
    FedSWA    u = g_k(w)
    server    w <- w + alpha (mean(w_k) - w)
    FedMoSWA  u = g_k(w) - c_k + m
              c_k' = c_k - m + (w_sent - w_k) / sum_i r_i;      c_k <- c_k'
    server    as FedSWA, then  m <- m + gamma mean_{k in cohort}(c_k' - m)

FedSWA is ``poly_rate(power=1, factor=1 / (1 - rho)) + server_sgd(lr=alpha)`` with uniform weights.
It is not ``swa()`` (ECCV 2022), which averages global models at the ends of cycles of rounds.

The released code has ``rho = 0``, twice the learning rate in FedSWA, ``alpha = 1`` unless another
is given, ``gamma = 0.4`` in FedMoSWA, and in round 0 ``m`` becomes the mean of ``c_k'``. The last
is ``fedmoswa(flavour="repo")``, the others are numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.gradient_transforms import PolyRate
from fedflat.client.piece import ClientContext, Piece
from fedflat.composition.method import Method, method
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import choice, number
from fedflat.methods.scaffold import Scaffold
from fedflat.server.optimizers import ServerSgd
from fedflat.server.piece import Send, ServerContext, ServerPiece


def falling_rate(owner: str, rho: float) -> tuple[Piece, ...]:
    """Return the piece whose rate falls to ``rho`` of the round's; none if ``rho`` is 1."""
    number(owner, "rho", rho, low=0, high=1)
    return () if rho == 1 else (PolyRate(1.0, 1 / (1 - rho)),)


@method
def fedswa(rho: float = 0.1, alpha: Scalar = 1.5) -> Method:
    """A rate that falls during local training, and an extrapolating server (Liu et al., ICML 2025).

    rho
        The rate at the end of local training, as a share of that at its start.
    alpha
        Learning rate of the server.
    """
    scalar("fedswa", "alpha", alpha)
    return Method(
        client=falling_rate("fedswa", rho), server=(ServerSgd(alpha),), weighting="uniform"
    )


@dataclass(frozen=True, repr=False)
class MomentumVariate(Scaffold):
    """The client's half: SCAFFOLD's control variate, of which the distance to ``m`` is sent."""

    owner = "fedmoswa"

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Update the estimate of the gradient, and send its distance to ``m``."""
        super().end(v, w)
        v.outbox["dc"] = v.state["c"] - v.inbox["c"]
        return w


@dataclass(frozen=True, repr=False)
class ServerMomentumVariate(ServerPiece):
    """The server's half: ``m``, which moves towards the cohort's control variates."""

    gamma: Scalar = 0.2
    flavour: str = "paper"

    stage, key = Stage.CORRECT, "scaffold"
    stateful = True

    def __post_init__(self) -> None:
        scalar("fedmoswa", "gamma", self.gamma, high=1)
        choice("fedmoswa", "flavour", self.flavour, ["paper", "repo"])

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Send ``m`` with the model and update it by the replies."""
        m = context.state.get("m")
        whole = m is None and self.flavour == "repo"
        gamma = 1.0 if whole else at(self.gamma, broadcast.round)
        m = torch.zeros_like(broadcast.params) if m is None else m
        replies = send(broadcast.enclose(self.key, c=m))
        context.state["m"] = torch.add(m, replies.mean(self.key, "dc"), alpha=gamma)
        return replies


@method
def fedmoswa(
    rho: float = 0.1,
    alpha: Scalar = 1.5,
    gamma: Scalar = ServerMomentumVariate.gamma,
    flavour: str = ServerMomentumVariate.flavour,
) -> Method:
    """FedSWA with control variates against a momentum (Liu et al., ICML 2025).

    ``flavour="repo"``: the momentum of round 0 is the whole mean of the control variates, as in the
    released code.
    """
    client = (*falling_rate("fedmoswa", rho), MomentumVariate())
    server = (ServerSgd(alpha), ServerMomentumVariate(gamma, flavour))
    return Method(client=client, server=server, weighting="uniform")
