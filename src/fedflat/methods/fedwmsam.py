"""FedWMSAM: momentum and perturbations towards a moving target, with a weight that adapts.

Li et al., A Fast and Flat Federated Learning Method via Weighted Momentum and Sharpness-Aware
Minimization, NeurIPS 2025.

    D        mean gradient of the last round, uphill, 0 at first;   c, c_k: SCAFFOLD's, 0 at first
    client   D_k = D + a / (1 - a) (c - c_k)
             step b = 0, 1, ...   d = (w_sent + b D_k) - w;   eps = rho d / ||d||      0 if d = 0
                                  u = a g_k(w + eps) + (1 - a) D_k
             c_k <- c_k - c + (w_sent - w_k) / (tau_k lr)
    server   w  <- w - mean(delta_k);      D <- mean(delta_k) / (tau lr)
             c  <- c + (1/K) sum_{k in cohort} (c_k' - c_k)                     K: all clients
             a  <- (1 - lam) a + lam clip(mean_k s_k, 0.1, 0.9)
             s_k = 1 + cos(-delta_k, D), with the D that was sent;  0 while D is 0

The perturbation has the paper's sign and a true norm. Algorithm 1 as printed adds where it must
subtract and leaves out the division by the steps; this is what the released code does there. In
that code the perturbation has the opposite sign, the flat vector is indexed by the tensor's number
(see `fedflat.methods.fedlesam`), and ``D`` is multiplied by the decay of the learning rate:
``flavour="repo"``. In both the target moves by a whole gradient in each step.

The paper's server keeps every ``c_k`` and sends ``D_k``. Here clients keep ``c_k``, the server
sends ``D`` and ``c``, and clients send the change of ``c_k``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.gradient_transforms import Momentum
from fedflat.client.local_adam import LocalAdam
from fedflat.client.piece import ClientContext, ModelInfo, Piece
from fedflat.composition.method import Method, method
from fedflat.core.flat import GradFn, unit
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import SettingError, choice, number
from fedflat.methods.fedcm import Mix
from fedflat.methods.fedlesam import one_number_per_tensor
from fedflat.methods.scaffold import Scaffold
from fedflat.server.piece import Send, ServerContext, ServerPiece

LEAST, MOST = 0.1, 0.9
"""Bounds of what the weight ``a`` moves to."""


@dataclass(frozen=True, repr=False)
class TargetSam(Piece):
    """The client's half: a perturbation towards the target, and part gradient, part momentum."""

    rho: Scalar
    flavour: str

    stage, key = Stage.PROBE, "fedwmsam"
    stackable = True
    upload_vectors = 1
    state_vectors = 1
    uploads_private = True
    uploads_statistics = "cosine between its update and the last mean update"

    def __post_init__(self) -> None:
        scalar("fedwmsam", "rho", self.rho)
        choice("fedwmsam", "flavour", self.flavour, ["paper", "repo"])

    def check(self, model_info: ModelInfo) -> None:
        """Refuse what makes the division by steps times learning rate wrong."""
        for piece in model_info.pieces:
            changes_rate = type(piece).lr_factor is not Piece.lr_factor
            if isinstance(piece, Momentum | LocalAdam) or changes_rate:
                raise SettingError(
                    "fedwmsam divides a client's update by steps times learning rate, which is "
                    f"wrong with {piece}. Leave it out, and use momentum 0."
                )
            if isinstance(piece, Scaffold | Mix):
                raise SettingError(
                    f"fedwmsam has a momentum and control variates of its own, and {piece} would "
                    "add them again. Leave one of them out."
                )

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Compute the client's direction."""
        c_k = v.scratch["c_k"] = v.state.get("c", torch.zeros_like(w))
        a = v.inbox["a"].to(w)
        v.scratch["a"] = a
        v.scratch["direction"] = v.inbox["direction"] + a / (1 - a) * (v.inbox["c"] - c_k)
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return ``a g(w + eps) + (1 - a) D_k``."""
        a, direction = v.scratch["a"], v.scratch["direction"]
        target = torch.add(v.sent, direction, alpha=v.steps) - w
        along = unit(target)
        if self.flavour == "repo":
            along = -one_number_per_tensor(target, v.layout)
        g = grad(torch.add(w, along, alpha=at(self.rho, v.round)))
        mixed: Tensor = a * g + (1 - a) * direction
        return mixed

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Update the control variate, and compare the update with the direction."""
        delta, direction = v.start - v.end, v.inbox["direction"]
        change = delta / v.lr_sum - v.inbox["c"]
        v.state["c"] = v.scratch["c_k"] + change
        v.outbox["dc"] = change
        aligned = 1 - (unit(delta) * unit(direction)).sum(dim=-1)
        v.outbox["aligned"] = torch.where(direction.any(dim=-1), aligned, 0.0)
        return w


@dataclass(frozen=True, repr=False)
class WeightedMomentum(ServerPiece):
    """The server's half: the direction, the mean control variate and the weight ``a``."""

    a: float
    lam: float
    flavour: str

    stage, key = Stage.CORRECT, "fedwmsam"
    stateful = True

    def __post_init__(self) -> None:
        number("fedwmsam", "a", self.a, low=0, high=1, open_low=True)
        if self.a == 1:
            raise SettingError("fedwmsam: a must be less than 1, found 1.")
        number("fedwmsam", "lam", self.lam, low=0, high=1)

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Send direction, control variate and weight; update them by the replies."""
        state, zero = context.state, torch.zeros_like(broadcast.params)
        c, direction = state.get("c", zero), state.get("direction", zero)
        a = state.get("a", torch.tensor(self.a, dtype=torch.float64))
        rate = torch.tensor(broadcast.lr, dtype=torch.float64)
        if self.flavour == "repo" and state.get("lr"):
            direction = direction * float(rate / state["lr"])
        replies = send(broadcast.enclose(self.key, direction=direction, c=c, a=a))
        state["lr"] = rate
        state["direction"] = replies.uniform / (replies.steps * broadcast.lr)
        share = replies.count / replies.population
        state["c"] = torch.add(c, replies.mean(self.key, "dc"), alpha=share)
        aligned = float(replies.mean(self.key, "aligned").mean())
        state["a"] = (1 - self.lam) * a + self.lam * min(max(aligned, LEAST), MOST)
        context.metrics["momentum_weight"] = float(a)
        return replies


@method
def fedwmsam(
    rho: Scalar = 0.01, a: float = 0.1, lam: float = 0.01, flavour: str = "paper"
) -> Method:
    """Momentum and perturbations towards a moving target (Li et al., NeurIPS 2025).

    a
        Share of the gradient in a step before round 0, above 0 and below 1.
    lam
        Speed at which this share adapts.
    flavour
        "paper", or "repo": sign, indexing and decay of the released code.
    """
    return Method(
        client=(TargetSam(rho, flavour),),
        server=(WeightedMomentum(a, lam, flavour),),
        weighting="uniform",
    )
