"""AdaBest: bias estimates that fade with the time since a client's last visit.

Varno et al., AdaBest: Minimizing Client Drift in Federated Learning via Adaptive Bias Estimation, ECCV 2022.

    client   u    =  g_k(w) - mu h_k                                h_k = 0 on the first visit
             h_k  <- h_k / (t - t'_k) + (w_sent - w_k)              t'_k: the round of its last visit
    server   wbar' = mean(w_k);  w <- wbar' - beta (wbar - wbar');  wbar <- wbar'

Means are uniform; ``wbar`` starts at the first model. The paper stores ``mu h_k``, which is the same for a
constant ``mu``. ``mu_mode="per_sample"`` multiplies ``mu`` by epochs times batch size over the client's
examples, as the authors' simulator does; there the batch size is averaged over the cohort, here it is the
client's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import Piece, Visit
from fedflat.errors import choice
from fedflat.flat import GradFn
from fedflat.mail import Mail, Replies
from fedflat.method import Method, method
from fedflat.schedules import Scalar, at, scalar
from fedflat.server.piece import Desk, Send, ServerPiece
from fedflat.stage import Stage


@dataclass(frozen=True, repr=False)
class AdaBest(Piece):
    """The client's half: its bias ``h_k`` and when it was here last."""

    mu: Scalar
    mu_mode: str = "plain"

    stage, key = Stage.CORRECT, "adabest"
    stacks = True
    keeps = 1

    def __post_init__(self) -> None:
        scalar("adabest", "mu", self.mu)
        choice("adabest", "mu_mode", self.mu_mode, ["plain", "per_sample"])

    def gradient(self, v: Visit, grad: GradFn, w: Tensor) -> Tensor:
        """``g - mu h_k``."""
        if "h" not in v.memory:
            return grad(w)
        scale = v.epochs**2 / v.planned if self.mu_mode == "per_sample" else 1.0  # epochs * batch / examples
        return torch.sub(grad(w), v.memory["h"], alpha=at(self.mu, v.round) * scale)

    def end(self, v: Visit, w: Tensor) -> Tensor:
        """Let the old bias fade, add the new walk."""
        walk = v.sent - v.stop
        if "h" in v.memory:
            walk = walk + v.memory["h"] / (v.round - v.memory["last"].unsqueeze(-1))
        v.memory["h"], v.memory["last"] = walk, torch.full(w.shape[:-1], v.round, device=w.device)
        return w


@dataclass(frozen=True, repr=False)
class ServerAdaBest(ServerPiece):
    """The server's half: steps beyond the mean, along the last move of the mean."""

    beta: Scalar

    stage, key = Stage.CORRECT, "adabest"
    moves = True
    owns_step = True

    def __post_init__(self) -> None:
        scalar("adabest", "beta", self.beta)

    def exchange(self, desk: Desk, send: Send, mail: Mail) -> Replies:
        """``w - (wbar' - beta (wbar - wbar'))``."""
        before = desk.memory.get("mean", mail.params)
        replies = send(mail)
        mean = desk.memory["mean"] = mail.params - replies.uniform  # a probe's perturbation does not stay in it
        target = mean - at(self.beta, mail.round) * (before - mean)
        return replies.with_delta(mail.params - target)


@method
def adabest(beta: Scalar = 0.9, mu: Scalar = 0.02, mu_mode: str = "plain") -> Method:
    """Adaptive bias estimation (Varno et al., ECCV 2022)."""
    return Method(client=(AdaBest(mu, mu_mode),), server=(ServerAdaBest(beta),), weighting="uniform")
