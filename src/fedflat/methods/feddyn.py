"""FedDyn: dynamic regularization through dual variables on clients and server.

Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021.

    client   u        =  g_k(w) - sigma_k + alpha (w - w_sent)
             sigma_k  <- sigma_k - alpha (w_k - w_sent)
    server   sigma    <- sigma - (alpha/K) sum_{k in cohort} (w_k - w_sent)          K: all clients
             w        <- mean(w_k) - sigma / alpha

With ``by_size`` client k has ``alpha_k = alpha mean(N) / N_k`` in place of ``alpha``, as in the
authors' code: fewer examples give a stronger penalty. With ``h_k = -sigma_k / alpha_k`` that is ``u
= g_k(w) + alpha_k (w - w_sent + h_k)``. The server adds the mean of all ``h_k``, which the lines
above do unchanged, as the server's ``sigma`` is in units of ``alpha``.

The penalty is half of alpha times the squared distance to ``w_sent``, whose gradient is ``alpha (w
- w_sent)``. In FL-SAM, the code of FedGMT, the distance is not squared. Then the gradient has the
constant length ``alpha / 2``: ``penalty="distance"``.

Means are uniform over the cohort. The server's model is evaluated; the authors' code reports the
mean of all clients' last models (add ``all_clients()`` for that).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, Piece
from fedflat.composition.method import Method, method
from fedflat.core.flat import GradFn, unit
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import choice, flag
from fedflat.server.piece import Send, ServerContext, ServerPiece


@dataclass(frozen=True, repr=False)
class Dual(Piece):
    """The client's half: its dual variable ``sigma_k``, an estimate of its own loss gradient."""

    alpha: Scalar
    by_size: bool = False

    stage, key = Stage.CORRECT, "dual"
    stackable = True
    state_vectors = 1

    def __post_init__(self) -> None:
        scalar("feddyn", "alpha", self.alpha, open_low=True)
        flag("feddyn", "by_size", self.by_size)

    @property
    def needs_mean_examples(self) -> bool:  # type: ignore[override]
        """True if ``alpha`` depends on the number of examples."""
        return self.by_size

    def length(self, v: ClientContext) -> float:
        """Return ``alpha`` of this client."""
        return at(self.alpha, v.round) * (v.mean_examples / v.examples if self.by_size else 1.0)

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        v.state.setdefault("sigma", torch.zeros_like(w))
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return ``g - sigma_k + alpha (w - w_sent)``."""
        return (grad(w) - v.state["sigma"]).add_(w - v.sent, alpha=self.length(v))

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Update the dual by the client's total change."""
        v.state["sigma"] = torch.sub(v.state["sigma"], v.end - v.sent, alpha=self.length(v))
        return w


@dataclass(frozen=True, repr=False)
class DistanceDual(Dual):
    """A dual variable with a pull of constant length, as in FL-SAM."""

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return ``g - sigma_k + alpha / 2 (w - w_sent) / ||w - w_sent||``."""
        pull = unit(w - v.sent)
        return (grad(w) - v.state["sigma"]).add_(pull, alpha=self.length(v) / 2)


@dataclass(frozen=True, repr=False)
class ServerDual(ServerPiece):
    """The server's half: ``sigma``, the mean of all clients' duals, is added to the step.

    ``scale="paper"`` divides by all clients; ``"repo"`` divides by the cohort's size as well, as
    FedGloSS's released code does.
    """

    alpha: Scalar
    scale: str = "paper"

    stage, key = Stage.CORRECT, "dual"
    stateful = True
    owns_step = True

    def __post_init__(self) -> None:
        choice("dual", "dual_scale", self.scale, ["paper", "repo"])

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Return ``delta + sigma / alpha``. delta points from the returned to the sent model."""
        replies = send(broadcast)
        alpha = at(self.alpha, broadcast.round)
        share = replies.count / replies.population / (replies.count if self.scale == "repo" else 1)
        sigma = context.state.get("sigma", torch.zeros_like(replies.delta))
        sigma = context.state["sigma"] = torch.add(sigma, replies.uniform, alpha=alpha * share)
        return replies.with_delta(replies.delta + sigma / alpha)


@method
def feddyn(alpha: Scalar = 0.01, by_size: bool = Dual.by_size, penalty: str = "squared") -> Method:
    """Dynamic regularization by dual variables (Acar et al., ICLR 2021).

    by_size
        Give clients with fewer examples a larger ``alpha``, as the authors' code does.
    penalty
        "squared": half the squared distance to the sent model; "distance": half the distance, as in
        FL-SAM.
    """
    choice("feddyn", "penalty", penalty, ["squared", "distance"])
    dual = Dual(alpha, by_size) if penalty == "squared" else DistanceDual(alpha, by_size)
    return Method(client=(dual,), server=(ServerDual(alpha),), weighting="uniform")
