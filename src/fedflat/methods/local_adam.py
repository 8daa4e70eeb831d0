"""Clients that step with Adam or AdamW, and what becomes of the moments between rounds.

    state="reset"    they start at 0 in every round: clients keep nothing, nothing more is sent
    state="client"   each client keeps its own for the next time it is selected
    state="server"   the server averages m and v like the model and sends them with it; clients
                     correct them for their start at 0 before they send them, and never again

The formulas are in `fedflat.client.local_adam`. The local learning rate is the run's. Methods that
divide a client's update by steps times learning rate (SCAFFOLD, FedCM) cannot be combined with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedflat.client.local_adam import AveragedLocalAdam, LocalAdam, PersistentLocalAdam
from fedflat.composition.method import Method, method
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar
from fedflat.core.stage import Stage
from fedflat.errors import choice
from fedflat.server.piece import Send, ServerContext, ServerPiece

STATES = {"reset": LocalAdam, "client": PersistentLocalAdam, "server": AveragedLocalAdam}


@dataclass(frozen=True, repr=False)
class ServerMoments(ServerPiece):
    """The server's half: the mean of the clients' moments."""

    stage, key = Stage.CORRECT, "local_adam"
    stateful = True

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Send the moments with the model and average those that come back."""
        zero = torch.zeros_like(broadcast.params)
        moments = {name: context.state.get(name, zero) for name in ("m", "v")}
        replies = send(broadcast.enclose(self.key, **moments))
        if broadcast.instruction.trains:
            for name in ("m", "v"):
                context.state[name] = replies.mean(self.key, name, replies.weighting)
        return replies


@method
def local_adam(
    b1: float = LocalAdam.b1,
    b2: float = LocalAdam.b2,
    eps: float = LocalAdam.eps,
    state: str = "reset",
) -> Method:
    """Local steps with Adam (Kingma and Ba, ICLR 2015).

    ``state``: moments are ``"reset"`` in every round, kept by each ``"client"``, or averaged by the
    ``"server"``.
    """
    return _with_state(b1, b2, eps, 0.0, state)


@method
def local_adamw(
    weight_decay: Scalar = 0.01,
    b1: float = LocalAdam.b1,
    b2: float = LocalAdam.b2,
    eps: float = LocalAdam.eps,
    state: str = "reset",
) -> Method:
    """Local steps with AdamW, whose weight decay is not scaled by the moments (Loshchilov, 2019).

    ``state`` as in ``local_adam``.

    weight_decay
        Weight decay per step, at least 0.
    """
    return _with_state(b1, b2, eps, weight_decay, state)


def _with_state(b1: float, b2: float, eps: float, decay: Scalar, state: str) -> Method:
    choice("local_adam", "state", state, list(STATES))
    server = (ServerMoments(),) if state == "server" else ()
    return Method(client=(STATES[state](b1, b2, eps, decay),), server=server)
