"""AdaBest: bias estimates that decay with the time since a client's last participation.

Varno et al., AdaBest: Minimizing Client Drift in Federated Learning via Adaptive Bias Estimation,
ECCV 2022.

    client   u    =  g_k(w) - mu h_k                                h_k = 0 at first
             h_k  <- h_k / (t - t'_k) + (w_sent - w_k)              t'_k: its last round
    server   wbar' = mean(w_k);  w <- wbar' - beta (wbar - wbar');  wbar <- wbar'

Means are uniform; ``wbar`` starts at the first model. The paper stores ``mu h_k``, which is the
same for a constant ``mu``. ``mu_mode="per_sample"`` multiplies ``mu`` by ``E B / N_k``, as the
authors' simulator does. ``E`` is the number of local epochs, ``N_k`` the client's examples, and
``B`` the mean batch size over all replies so far, including earlier ones of the same round.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, Piece
from fedflat.composition.method import Method, method
from fedflat.core.flat import GradFn
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import choice
from fedflat.server.piece import Send, ServerContext, ServerPiece


@dataclass(frozen=True, repr=False)
class AdaBest(Piece):
    """The client's half: its bias ``h_k`` and the round of its last participation."""

    mu: Scalar
    mu_mode: str = "plain"

    stage, key = Stage.CORRECT, "adabest"
    stackable = True
    state_vectors = 1

    def __post_init__(self) -> None:
        scalar("adabest", "mu", self.mu)
        choice("adabest", "mu_mode", self.mu_mode, ["plain", "per_sample"])

    @property
    def needs_cohort_order(self) -> bool:  # type: ignore[override]
        """True if ``mu`` depends on the batches of earlier clients."""
        return self.mu_mode == "per_sample"

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Scale ``h_k`` by the mean batch size so far."""
        v.scratch["h"] = v.state.get("h")
        if "h" in v.state and v.preceding is not None:
            count, batches = v.preceding.unbind(-1)
            batch = (v.inbox["batches"] + batches) / (v.inbox["replies"] + count)
            factor = (v.epochs / v.examples * batch).to(w.dtype).unsqueeze(-1)
            v.scratch["h"] = factor * v.state["h"]
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        h: Tensor | None = v.scratch["h"]
        return grad(w) if h is None else torch.sub(grad(w), h, alpha=at(self.mu, v.round))

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Decay the old bias and add the new update."""
        h = v.sent - v.end
        if "h" in v.state:
            h = h + v.state["h"] / (v.round - v.state["last"].unsqueeze(-1))
        v.state["h"] = h
        v.state["last"] = torch.full(w.shape[:-1], v.round, device=w.device)
        return w


@dataclass(frozen=True, repr=False)
class ServerAdaBest(ServerPiece):
    """The server's half: steps beyond the mean, along the last change of the mean."""

    beta: Scalar
    mu_mode: str = "plain"

    stage, key = Stage.CORRECT, "adabest"
    stateful = True
    owns_step = True
    averages = "uniform"

    def __post_init__(self) -> None:
        scalar("adabest", "beta", self.beta)

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Return ``w - (wbar' - beta (wbar - wbar'))`` as the pseudo-gradient."""
        before = context.state.get("mean", broadcast.params)
        replies = (
            send(broadcast)
            if self.mu_mode == "plain"
            else self._send_batch_sizes(context, send, broadcast)
        )
        # broadcast.params is not perturbed by a probe, so the mean is not either.
        mean = context.state["mean"] = broadcast.params - replies.uniform
        target = mean - at(self.beta, broadcast.round) * (before - mean)
        return replies.with_delta(broadcast.params - target)

    def _send_batch_sizes(
        self, context: ServerContext, send: Send, broadcast: Broadcast
    ) -> Replies:
        """Also send the number of replies so far and the sum of their batch sizes."""
        zero = torch.zeros((), dtype=torch.float64, device=broadcast.params.device)
        count, batches = context.state.get("replies", zero), context.state.get("batches", zero)
        replies = send(broadcast.enclose(self.key, replies=count, batches=batches))
        context.state["replies"] = count + replies.count
        context.state["batches"] = batches + replies.count * replies.batch
        return replies


@method
def adabest(beta: Scalar = 0.9, mu: Scalar = 0.02, mu_mode: str = AdaBest.mu_mode) -> Method:
    """Adaptive bias estimation (Varno et al., ECCV 2022)."""
    return Method(
        client=(AdaBest(mu, mu_mode),), server=(ServerAdaBest(beta, mu_mode),), weighting="uniform"
    )
