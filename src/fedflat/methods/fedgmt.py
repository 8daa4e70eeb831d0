"""FedGMT: clients are held to what an exponential mean of the global models predicts.

Li et al., One Arrow, Two Hawks: Sharpness-aware Minimization for Federated Learning via Global
Model Trajectory, ICML 2025.

    e        the exponential mean of the global models, sent beside the model
    client   loss = CE(z, y) + gamma T^2 KL( softmax(z_e / T) || softmax(z / T) )
             u    = gradient of the loss + h_k / beta;     h_k <- h_k + (w_k - w_sent)
    server   w   <- mean(w_k) + (1/K) sum over all k of h_k                       K: all clients
             e   <- alpha e + (1 - alpha) w                                       the initial model at first

Along the trajectory of the global model, the loss at ``w`` minus that at ``e`` stands for SAM's
sharpness; it costs a forward pass in place of a gradient. The dual variable ``h_k`` is FedDyn's, in
units of weights and without the pull to ``w_sent``.

The server's line is that of the released code. In the paper's the mean of the active clients' ``w_k
+ h_k`` is taken: ``dual="active"``. Both agree if all clients take part. In the released code the
running statistics of ``e`` stay those of the initial model; here they are those that were sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedflat.client.distillation import check_classes, divergence, scores_of
from fedflat.client.piece import ClientContext, ModelInfo, Piece, Term
from fedflat.composition.method import Method, method
from fedflat.core.flat import GradFn, Model
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.data.examples import Batch
from fedflat.errors import choice, number
from fedflat.server.piece import Send, ServerContext, ServerPiece


@dataclass(frozen=True, repr=False)
class TrajectoryTerm(Term):
    """``gamma`` times the distance to what the mean of the global models predicts."""

    gamma: Scalar
    T: float

    key = "fedgmt"
    needs_server_model = True

    def __post_init__(self) -> None:
        scalar("fedgmt", "gamma", self.gamma)
        number("fedgmt", "T", self.T, low=0, open_low=True)

    def check(self, model_info: ModelInfo) -> None:
        """Refuse a task without classes, if there is a term."""
        if self.gamma != 0:
            check_classes("fedgmt", model_info)

    def loss(self, v: ClientContext, batch: Batch, output: Tensor, seen: Any) -> Tensor:
        gamma = at(self.gamma, v.round)
        if not gamma:
            return output.new_zeros(())
        known = scores_of(v, Model(v.inbox["e"], v.sent_buffers), batch)
        return gamma * self.T**2 * divergence(known, output, self.T)


@dataclass(frozen=True, repr=False)
class TrajectoryDual(Piece):
    """The client's dual variable ``h_k``, in units of weights."""

    beta: float
    dual: str

    stage, key = Stage.CORRECT, "gmt_dual"
    stackable = True
    state_vectors = 1

    def __post_init__(self) -> None:
        number("fedgmt", "beta", self.beta, low=0, open_low=True)
        choice("fedgmt", "dual", self.dual, ["all", "active"])

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        v.state.setdefault("h", torch.zeros_like(w))
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        return torch.add(grad(w), v.state["h"], alpha=1 / self.beta)

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Update the dual; add it to what is sent back if the server does not."""
        v.state["h"] = v.state["h"] + (v.end - v.sent)
        return w + v.state["h"] if self.dual == "active" else w


@dataclass(frozen=True, repr=False)
class Trajectory(ServerPiece):
    """The server's half: sends the mean of its models, and adds the mean dual to the step."""

    alpha: Scalar
    dual: str

    stage, key = Stage.CORRECT, "fedgmt"
    stateful = True
    owns_step = True

    def __post_init__(self) -> None:
        scalar("fedgmt", "alpha", self.alpha, high=1)

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Return ``delta`` minus the mean of all clients' duals."""
        replies = send(broadcast.enclose(self.key, e=context.state["e"]))
        if self.dual == "active":
            return replies
        h = context.state.get("h", torch.zeros_like(replies.delta))
        share = replies.count / replies.population
        h = context.state["h"] = torch.sub(h, replies.uniform, alpha=share)
        return replies.with_delta(replies.delta - h)

    def after_round(
        self, state: Mapping[str, Tensor], model: Model, completed: int, rounds: int
    ) -> Mapping[str, Tensor]:
        """Move the mean of the models towards the new one."""
        if "e" not in state:
            return {**state, "e": model.params}
        if not completed:
            return state
        alpha = at(self.alpha, completed - 1)
        return {**state, "e": alpha * state["e"] + (1 - alpha) * model.params}


@method
def fedgmt(
    alpha: Scalar = 0.95,
    gamma: Scalar = 1.0,
    beta: float = 10.0,
    T: float = 3.0,
    dual: str = "all",
) -> Method:
    """Clients held to the mean of the global models, with dual variables (Li et al., ICML 2025).

    alpha
        Share of the old mean of the global models, from 0 to 1.
    gamma, T
        Weight and temperature of the term.
    beta
        The dual variable is divided by it in each step, above 0.
    dual
        The server adds the mean dual of "all" clients, as the released code does, or that of the
        "active" ones.
    """
    client = (TrajectoryTerm(gamma, T), TrajectoryDual(beta, dual))
    return Method(client=client, server=(Trajectory(alpha, dual),))
