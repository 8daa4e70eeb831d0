"""FedDyn: clients and server agree on a stationary point through dual variables.

Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021.

    client   u        =  g_k(w) - sigma_k + alpha (w - w_sent)
             sigma_k  <- sigma_k - alpha (w_k - w_sent)
    server   sigma    <- sigma - (alpha/K) sum_{k in cohort} (w_k - w_sent)          K: all clients
             w        <- mean(w_k) - sigma / alpha

With ``by_size`` client k has ``alpha_k = alpha mean(N) / N_k`` in place of ``alpha``, as in the authors' code: the
fewer examples, the tighter. In ``h_k = -sigma_k / alpha_k`` that is ``u = g_k(w) + alpha_k (w - w_sent + h_k)``, and
the server adds the mean of all ``h_k``, which the lines above do as they stand: its ``sigma`` is in units of ``alpha``.

Means are uniform over the cohort. The server's model is evaluated; the authors' code reports the mean of
all clients' last models (add ``all_clients()`` for that).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import Piece, Visit
from fedflat.composition.method import Method, method
from fedflat.engine.flat import GradFn
from fedflat.engine.mail import Mail, Replies
from fedflat.engine.stage import Stage
from fedflat.errors import choice, flag
from fedflat.language.schedules import Scalar, at, scalar
from fedflat.server.piece import Desk, Send, ServerPiece


@dataclass(frozen=True, repr=False)
class Dual(Piece):
    """The client's half: its running estimate ``sigma_k`` of its own loss gradient."""

    alpha: Scalar
    by_size: bool = False

    stage, key = Stage.CORRECT, "dual"
    stacks = True
    keeps = 1

    def __post_init__(self) -> None:
        scalar("feddyn", "alpha", self.alpha, open_low=True)
        flag("feddyn", "by_size", self.by_size)

    @property
    def compares(self) -> bool:  # type: ignore[override]
        """Whether ``alpha`` hangs on how many examples clients hold."""
        return self.by_size

    def length(self, v: Visit) -> float:
        """``alpha`` of this client."""
        return at(self.alpha, v.round) * (v.mean_examples / v.examples if self.by_size else 1.0)

    def begin(self, v: Visit, w: Tensor) -> Tensor:
        """A client never seen before has a dual of 0."""
        v.memory.setdefault("sigma", torch.zeros_like(w))
        return w

    def gradient(self, v: Visit, grad: GradFn, w: Tensor) -> Tensor:
        """``g - sigma_k + alpha (w - w_sent)``."""
        return (grad(w) - v.memory["sigma"]).add_(w - v.sent, alpha=self.length(v))

    def end(self, v: Visit, w: Tensor) -> Tensor:
        """Move the dual by what was walked."""
        v.memory["sigma"] = torch.sub(v.memory["sigma"], v.stop - v.sent, alpha=self.length(v))
        return w


@dataclass(frozen=True, repr=False)
class ServerDual(ServerPiece):
    """The server's half: ``sigma``, the mean of all clients' duals, pushes the step on.

    ``scale="paper"`` divides by all clients; ``"repo"`` divides by the cohort's size as well, as FedGloSS's
    released code does.
    """

    alpha: Scalar
    scale: str = "paper"

    stage, key = Stage.CORRECT, "dual"
    moves = True
    owns_step = True

    def __post_init__(self) -> None:
        choice("dual", "dual_scale", self.scale, ["paper", "repo"])

    def exchange(self, desk: Desk, send: Send, mail: Mail) -> Replies:
        """``delta + sigma / alpha``; delta points from what was returned to what was sent."""
        replies = send(mail)
        alpha = at(self.alpha, mail.round)
        share = replies.count / replies.population / (replies.count if self.scale == "repo" else 1)
        sigma = desk.memory.get("sigma", torch.zeros_like(replies.delta))
        sigma = desk.memory["sigma"] = torch.add(sigma, replies.uniform, alpha=alpha * share)
        return replies.with_delta(replies.delta + sigma / alpha)


@method
def feddyn(alpha: Scalar = 0.01, by_size: bool = Dual.by_size) -> Method:
    """Dynamic regularisation by dual variables (Acar et al., ICLR 2021).

    ``by_size=True`` gives clients with fewer examples a larger ``alpha``, as the authors' code does.
    """
    return Method(client=(Dual(alpha, by_size),), server=(ServerDual(alpha),), weighting="uniform")
