"""FedNova: updates are divided by the local work, so that clients with more steps do not dominate.

Wang et al., Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization,
NeurIPS 2020.

    client   the change is a weighted sum of its gradients:  w_sent - w_k = lr sum_i a_i g_i
             sends  d_k = (w_sent - w_k) / A_k,   A_k = sum_i a_i
    server   w <- w - tau_eff sum_k p_k d_k,      tau_eff = sum_k p_k A_k

    plain steps   a_i = 1                                        A_k = tau_k
    momentum b    a_i = (1 - b^(tau_k - i)) / (1 - b)            i = 0 .. tau_k - 1
    proximal mu   a_i = (1 - lr mu)^(tau_k - 1 - i)

``A_k`` is computed from the run's momentum, the method's proximal term and the learning rates of
the steps, with any combination of them. With ``tau_eff="steps"`` the server takes
``sum_k p_k tau_k``, as the authors' code does if there is a proximal term.

A control variate changes the gradients but not their weights, so ``fednova() + scaffold()`` works.
Dual variables bring a pull of their own and another server step, and are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from torch import Tensor

from fedflat.client.gradient_transforms import Momentum, Prox
from fedflat.client.local_adam import LocalAdam
from fedflat.client.piece import ClientContext, ModelInfo, Piece
from fedflat.composition.method import Method, method
from fedflat.core.flat import GradFn
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import at
from fedflat.core.stage import Stage
from fedflat.errors import SettingError, choice
from fedflat.server.piece import Send, ServerContext, ServerPiece


def local_work(rates: Sequence[float], lr: float, momentum: float = 0.0, mu: float = 0.0) -> float:
    """Return ``A_k``: the change by steps with these rates if every gradient is 1, over ``lr``.

    >>> local_work([0.1] * 3, 0.1), round(local_work([0.1] * 3, 0.1, momentum=0.5), 8)
    (3.0, 4.25)
    >>> round(local_work([0.1] * 3, 0.1, mu=2.0), 8)  # 1 + 0.8 + 0.64
    2.44
    """
    change = buffer = 0.0
    for rate in rates:
        buffer = momentum * buffer + 1 - mu * change * lr
        change += rate / lr * buffer
    return change


@dataclass(frozen=True, repr=False)
class NormalizedUpdate(Piece):
    """The client's half: divides the update by the local work."""

    stage, key = Stage.OPTIMIZER, "fednova"
    stackable = True
    needs_server_model = True
    uploads_statistics = "its number of steps, and the sum of their weights"

    def check(self, model_info: ModelInfo) -> None:
        if any(isinstance(piece, LocalAdam) for piece in model_info.pieces):
            raise SettingError(
                "fednova divides an update by the weights of its gradients, which local Adam "
                "changes in every step. Leave one of them out."
            )

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Start the list of learning rates."""
        v.scratch["sums"] = []
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Note the sum of the learning rates so far."""
        v.scratch["sums"].append(v.lr_sum)
        return grad(w)

    def upload(self, v: ClientContext, delta: Tensor) -> Tensor:
        """Return the update divided by the local work."""
        sums = [*v.scratch["sums"], v.lr_sum]
        rates = [after - before for before, after in pairwise(sums)]
        momentum = [at(p.mu, v.round) for p in v.pieces if isinstance(p, Momentum)]
        pull = [at(p.mu, v.round) for p in v.pieces if isinstance(p, Prox)]
        work = local_work(rates, v.lr, sum(momentum), sum(pull)) if v.lr else float(v.steps)
        v.outbox["work"] = delta.new_full(delta.shape[:-1], work)
        v.outbox["steps"] = delta.new_full(delta.shape[:-1], v.steps)
        return delta / work


@dataclass(frozen=True, repr=False)
class EffectiveSteps(ServerPiece):
    """The server's half: multiplies the mean by the effective number of steps."""

    tau_eff: str = "work"

    stage, key = Stage.BATCH, "fednova"
    owns_step = True

    def __post_init__(self) -> None:
        choice("fednova", "tau_eff", self.tau_eff, ["work", "steps"])

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Return the mean update, in the scale of FedAvg's."""
        replies = send(broadcast)
        if not broadcast.instruction.trains:
            return replies
        steps = replies.mean(self.key, self.tau_eff, replies.weighting)
        return replace(
            replies,
            delta=steps * replies.delta,
            uniform=replies.mean(self.key, self.tau_eff) * replies.uniform,
            square=float(steps) ** 2 * replies.square,
        )


@method
def fednova(tau_eff: str = EffectiveSteps.tau_eff) -> Method:
    """Averages updates divided by the clients' local work (Wang et al., NeurIPS 2020).

    tau_eff
        The factor of the mean: "work", the mean of the clients' weights of gradients, or "steps",
        the mean of their steps.
    """
    return Method(client=(NormalizedUpdate(),), server=(EffectiveSteps(tau_eff),))
