"""FedCM: every local step is mixed with the last global direction.

Xu et al., FedCM: Federated Learning with Client-level Momentum, 2021.

    client   u = a g_k(w) + (1 - a) D
    server   w <- w - mean(delta_k);    D <- mean(delta_k) / (tau lr),  0 before round 0

``tau`` is the mean number of steps over the cohort and ``lr`` the learning rate of the round, so
``D`` has the scale of a gradient. In round 0 the step is ``a g``: smaller than FedAvg's, as in the
paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.local_adam import LocalAdam
from fedflat.client.piece import ClientContext, ModelInfo, Piece
from fedflat.composition.method import Method, method
from fedflat.core.flat import GradFn
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import SettingError
from fedflat.server.piece import Send, ServerContext, ServerPiece


@dataclass(frozen=True, repr=False)
class Mix(Piece):
    """The client's half: part gradient, part global direction."""

    a: Scalar

    stage, key = Stage.CORRECT, "mix"
    stackable = True

    def __post_init__(self) -> None:
        scalar("fedcm", "a", self.a, high=1)

    def check(self, model_info: ModelInfo) -> None:
        """Refuse local Adam, and a learning rate that changes within local training."""
        if any(type(piece).lr_factor is not Piece.lr_factor for piece in model_info.pieces):
            raise SettingError(
                "fedcm divides clients' updates by steps times learning rate, which is wrong if "
                "the rate decreases within local training. Leave out poly_rate()."
            )

        if any(isinstance(piece, LocalAdam) for piece in model_info.pieces):
            raise SettingError(
                "fedcm mixes gradients with clients' updates divided by steps times learning rate, "
                "which are no gradients with local Adam. Leave one of them out."
            )

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        a = at(self.a, v.round)
        return torch.add(a * grad(w), v.inbox["direction"], alpha=1 - a)


@dataclass(frozen=True, repr=False)
class ServerMix(ServerPiece):
    """The server's half: sends the last direction, scaled as a gradient."""

    stage, key = Stage.CORRECT, "mix"
    stateful = True

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Send the direction with the model, and store the new one."""
        direction = context.state.get("direction", torch.zeros_like(broadcast.params))
        replies = send(broadcast.enclose(self.key, direction=direction))
        context.state["direction"] = replies.uniform / (replies.steps * broadcast.lr)
        return replies


@method
def fedcm(a: Scalar = 0.1) -> Method:
    """Client steps mixed with the global momentum (Xu et al., 2021)."""
    return Method(client=(Mix(a),), server=(ServerMix(),), weighting="uniform")
