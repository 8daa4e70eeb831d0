"""SCAFFOLD: control variates remove the client's drift from every local step.

Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020,
option II.

    client   u    =  g_k(w) - c_k + c
             c_k' =  c_k - c + (w_sent - w_k) / (tau_k lr);    sends dc_k = c_k' - c_k
             c_k  <- c_k'
    server   w    <- w - mean(delta_k);    c <- c + (1/K) sum_{k in cohort} dc_k    K: all clients

``c`` is the one received, ``tau_k`` the number of steps taken. Local momentum and
local Adam would make the division by ``tau_k lr`` wrong, so they are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedflat.client.gradient_transforms import Momentum
from fedflat.client.local_adam import LocalAdam
from fedflat.client.piece import ClientContext, ModelInfo, Piece
from fedflat.composition.method import Method, method
from fedflat.core.flat import GradFn
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.stage import Stage
from fedflat.errors import SettingError
from fedflat.server.piece import Send, ServerContext, ServerPiece


@dataclass(frozen=True, repr=False)
class Scaffold(Piece):
    """The client's half: ``c_k``, an estimate of its own gradient."""

    stage, key = Stage.CORRECT, "scaffold"
    stackable = True
    upload_vectors = 1
    state_vectors = 1
    uploads_private = True
    owner: ClassVar[str] = "scaffold"
    """Name of the method, for messages."""

    def check(self, model_info: ModelInfo) -> None:
        """Refuse local momentum and local Adam."""
        if any(isinstance(piece, Momentum) for piece in model_info.pieces):
            raise SettingError(
                f"{self.owner} divides a client's update by steps times learning rate, which is wrong "
                "with local momentum. Use momentum 0."
            )
        if any(isinstance(piece, LocalAdam) for piece in model_info.pieces):
            raise SettingError(
                f"{self.owner} divides a client's update by steps times learning rate, which is wrong "
                "with local Adam. Leave one of them out."
            )

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Start a new client's control variate at 0."""
        v.scratch["c_k"] = v.state.get("c", torch.zeros_like(w))
        v.scratch["shift"] = v.inbox["c"] - v.scratch["c_k"]
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        shift: Tensor = v.scratch["shift"]
        return grad(w) + shift

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Update the estimate of the gradient from the client's total change."""
        change = (v.start - v.end) / v.lr_sum - v.inbox["c"]
        v.state["c"] = v.scratch["c_k"] + change
        v.outbox["dc"] = change
        return w


@dataclass(frozen=True, repr=False)
class ServerScaffold(ServerPiece):
    """The server's half: ``c``, the mean of all clients' control variates."""

    stage, key = Stage.CORRECT, "scaffold"
    stateful = True

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Send ``c`` with the model and update it by the replies."""
        c = context.state.get("c", torch.zeros_like(broadcast.params))
        replies = send(broadcast.enclose(self.key, c=c))
        share = replies.count / replies.population
        context.state["c"] = torch.add(c, replies.mean(self.key, "dc"), alpha=share)
        return replies


@method
def scaffold() -> Method:
    """Control variates against client drift (Karimireddy et al., ICML 2020)."""
    return Method(client=(Scaffold(),), server=(ServerScaffold(),), weighting="uniform")
