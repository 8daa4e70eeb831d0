"""Mime and MimeLite: clients step as the server's optimizer would, with its statistics fixed.

Karimireddy et al., Breaking the Centralized Barrier for Cross-Device Federated Learning, NeurIPS
2021.

    first    c = sum_k p_k grad f_k(w), each over all of the client's data; p_k as for delta
    client   Mime       ghat = g_k(w) - g_k(w_sent) + c        both on the same batch
             MimeLite   ghat = g_k(w)
             u = ghat + b m
    server   w <- w - delta;    m <- c + b m,  m = 0 before round 0

Weights are sized by default. With ``b = 0`` this is Mime-SGD. The paper writes ``(1-b) ghat + b m``
and ``m <- (1-b) c + b m``: that is ``dampening=b``, for which the local learning rate must be
larger by 1/(1-b). Mime needs ``c`` before local training, so it makes two exchanges with the same
clients (which keep the model in between). MimeLite sends its full gradient back with its model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedflat.client.instructions import Gradient
from fedflat.client.piece import ClientContext, Piece
from fedflat.composition.method import Method, method
from fedflat.core.flat import GradFn
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.server.piece import Send, ServerContext, ServerPiece


@dataclass(frozen=True, repr=False)
class Mime(Piece):
    """The client's half of Mime: gradients corrected to the cohort's, plus the fixed momentum."""

    b: Scalar
    dampening: Scalar

    stage, key = Stage.CORRECT, "mime"
    stackable = True
    needs_server_model = True
    uploads_private = True

    @property
    def oracle_calls(self) -> int:
        """Two: at the current parameters, and at those that were sent."""
        return 2

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return ``g(w) - g(w_sent) + c + b m``."""
        ghat = grad(w) - grad(v.sent) + v.inbox["c"]
        return _with_momentum(self, v, ghat)


@dataclass(frozen=True, repr=False)
class MimeLite(Piece):
    """The client's half of MimeLite: plain gradients plus the fixed momentum.

    It also sends its full gradient.
    """

    b: Scalar
    dampening: Scalar

    stage, key = Stage.CORRECT, "mime"
    stackable = True
    upload_vectors = 1
    uploads_private = True
    full_gradients = 1

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Compute the gradient over all data at the server's model."""
        v.outbox["c"] = v.full_gradient(v.sent)
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        return _with_momentum(self, v, grad(w))


def _with_momentum(piece: Mime | MimeLite, v: ClientContext, ghat: Tensor) -> Tensor:
    damped = (1 - at(piece.dampening, v.round)) * ghat
    return torch.add(damped, v.inbox["m"], alpha=at(piece.b, v.round)) if "m" in v.inbox else damped


@dataclass(frozen=True, repr=False)
class ServerMime(ServerPiece):
    """The server's half: requests the full gradient (Mime) and stores the momentum."""

    b: Scalar
    dampening: Scalar
    lite: bool

    stage, key = Stage.CORRECT, "mime"
    stateful = True

    @property
    def oracle_calls(self) -> int:
        """Two for Mime: the gradient, then local training."""
        return 1 if self.lite else 2

    def __post_init__(self) -> None:
        scalar("mime", "b", self.b, high=1)
        scalar("mime", "dampening", self.dampening, high=1)

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Collect ``c``, train the clients, and update the momentum."""
        b, scale = at(self.b, broadcast.round), 1 - at(self.dampening, broadcast.round)
        m = context.state.get("m", torch.zeros_like(broadcast.params))
        momentum = {"m": m} if self.b != 0 else {}
        if self.lite:
            replies = send(broadcast.enclose(self.key, **momentum))
            c = replies.mean(self.key, "c", replies.weighting)
        else:
            c = send(replace(broadcast, instruction=Gradient(), commit=False)).delta
            replies = send(broadcast.enclose(self.key, c=c, **momentum))
        if momentum:
            context.state["m"] = scale * c + b * m
        return replies


@method
def mime(b: Scalar = 0.9, dampening: Scalar = 0.0) -> Method:
    """Server momentum in client steps, corrected gradients (Karimireddy et al., NeurIPS 2021)."""
    return Method(
        client=(Mime(b, dampening),),
        server=(ServerMime(b, dampening, lite=False),),
        weighting="sized",
    )


@method
def mimelite(b: Scalar = 0.9, dampening: Scalar = 0.0) -> Method:
    """Server momentum in client steps, plain gradients (Karimireddy et al., NeurIPS 2021)."""
    return Method(
        client=(MimeLite(b, dampening),),
        server=(ServerMime(b, dampening, lite=True),),
        weighting="sized",
    )
