"""FedACG: the server sends a lookahead model along its momentum, and clients stay near it.

Kim et al., Communication-Efficient Federated Learning with Accelerated Client Gradient, CVPR 2024.

    server   sends y = w + lam m                          m = 0 before round 0, points downhill
    client   u = g_k(w) + beta (w - y), from y
    server   m <- lam m + mean(w_k - y);    w <- w + m

Means are uniform. The authors' code has the penalty without the 1/2, so its weight is half of
``beta``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fedflat.client.gradient_transforms import Prox
from fedflat.composition.method import Method, method
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.server.piece import Send, ServerContext, ServerPiece


@dataclass(frozen=True, repr=False)
class Lookahead(ServerPiece):
    """Sends ``w + lam m`` and adds the clients' mean update to ``m``."""

    lam: Scalar

    stage, key = Stage.PROBE, "lookahead"
    stateful = True
    owns_step = True
    averages = "uniform"

    def __post_init__(self) -> None:
        scalar("fedacg", "lam", self.lam, high=1)

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Return the momentum as a pseudo-gradient."""
        ahead = at(self.lam, broadcast.round) * context.state.get(
            "m", torch.zeros_like(broadcast.params)
        )
        replies = send(replace(broadcast, params=broadcast.params + ahead))
        context.state["m"] = ahead - replies.uniform
        return replies.with_delta(-context.state["m"])


@method
def fedacg(lam: Scalar = 0.85, beta: Scalar = 0.01) -> Method:
    """Accelerated client gradients from a lookahead model (Kim et al., CVPR 2024)."""
    return Method(client=(Prox(beta),), server=(Lookahead(lam),), weighting="uniform")
