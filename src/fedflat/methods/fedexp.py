"""FedExP: the server's step grows with the disagreement of the clients.

Jhunjhunwala et al., FedExP: Speeding Up Federated Averaging via Extrapolation, ICLR 2023.

    server   eta = max(1, sum_k p_k ||delta_k||^2 / (2 (||delta||^2 + eps)))     delta = sum_k p_k delta_k
             w  <- w - eta delta
    evaluated: the mean of the last two models, since the models swing

It can be added to other methods: the step is computed from what the clients returned, before a dual
variable is added. ``eta`` is a metric of every round (``eta_g``).

The authors' code has ``S eps`` in place of ``eps`` (S: the clients of the round) and multiplies it
by the squared decay of the local learning rate: ``flavour="repo"``. It weights clients by size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedflat.composition.method import Method, method
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.stage import Stage
from fedflat.errors import choice, number
from fedflat.server.averaging import Wima
from fedflat.server.piece import Send, ServerContext, ServerPiece


@dataclass(frozen=True, repr=False)
class Extrapolation(ServerPiece):
    """Multiplies the pseudo-gradient by FedExP's step size."""

    eps: float = 1e-3
    flavour: str = "paper"

    stage, key = Stage.SCALE, "fedexp"
    stateful = True

    def __post_init__(self) -> None:
        number("fedexp", "eps", self.eps, low=0)
        choice("fedexp", "flavour", self.flavour, ["paper", "repo"])

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Scale the pseudo-gradient by the step size of this round."""
        replies = send(broadcast)
        if not broadcast.instruction.trains:
            return replies
        eps = self.eps
        if self.flavour == "repo":
            now = torch.tensor(broadcast.lr, dtype=torch.float64)
            first = context.state.setdefault("first_lr", now)
            eps *= replies.count * (float(now / first) ** 2 if first else 1.0)
        length = float(torch.linalg.vector_norm(replies.delta, dtype=torch.float64)) ** 2
        eta = step_size(replies.square, length, eps)
        context.metrics["eta_g"] = eta
        return replies.with_delta(eta * replies.delta)


@dataclass(frozen=True, repr=False)
class LastTwo(Wima):
    """The mean of the last two models."""

    window: int = 2

    key = "last_two"


def step_size(mean_square: float, square_of_mean: float, eps: float) -> float:
    """Return ``max(1, mean_square / (2 (square_of_mean + eps)))``.

    >>> round(step_size(1.07, 0.26, 1e-3), 8), round(step_size(1.07, 0.26, 2e-3), 8)
    (2.04980843, 2.04198473)
    """
    below = 2 * (square_of_mean + eps)
    return max(1.0, mean_square / below) if below else 1.0


@method
def fedexp(eps: float = Extrapolation.eps, flavour: str = Extrapolation.flavour) -> Method:
    """A server step that grows when clients disagree (Jhunjhunwala et al., ICLR 2023).

    The mean of the last two models is evaluated. With ``flavour="repo"``, ``eps`` is multiplied by
    the number of clients and by the squared decay of the learning rate, as in the authors' code.
    """
    return Method(server=(Extrapolation(eps, flavour),), averages=(LastTwo(),))
