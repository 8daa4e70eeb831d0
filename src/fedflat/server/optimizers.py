"""Server optimizers: learning rate, momentum, Adam, AdaGrad and Yogi on the pseudo-gradient.

Reddi et al., Adaptive Federated Optimization, ICLR 2021. Hsu et al., Measuring the Effects of
Non-Identical Data Distribution for Federated Visual Classification, 2019 (server momentum).

    momentum   m <- beta m + delta                             w <- w - lr m
    adagrad    m <- b1 m + (1-b1) delta;  v <- v + delta^2     w <- w - lr m / (sqrt(v) + tau)
    yogi       m likewise;  v <- v - (1-b2) delta^2 sign(v - delta^2)
    adam       m likewise;  v <- b2 v + (1-b2) delta^2

The papers' form starts at ``v = tau^2`` and has no bias correction. ``flavour="torch"`` does what
torch.optim does: ``v`` starts at 0, Adam corrects the bias, AdaGrad has no first moment, and
``tau`` is its ``eps``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import choice, number
from fedflat.server.piece import Send, ServerContext, ServerPiece


@dataclass(frozen=True, repr=False)
class ServerSgd(ServerPiece):
    """Multiplies the pseudo-gradient by ``lr``.

    A dual variable that is added later is not scaled.
    """

    lr: Scalar = 1.0

    stage, key = Stage.SCALE, "server_sgd"

    def __post_init__(self) -> None:
        scalar("server_sgd", "lr", self.lr)

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Scale the pseudo-gradient.

        True gradients, which Mime requests, are not steps and are not scaled.
        """
        replies = send(broadcast)
        return (
            replies.with_delta(at(self.lr, broadcast.round) * replies.delta)
            if broadcast.instruction.trains
            else replies
        )


@dataclass(frozen=True, repr=False)
class ServerMomentum(ServerPiece):
    """Heavy-ball momentum on the pseudo-gradient, without dampening.

    beta
        Share of the last momentum, from 0 to 1.
    lr
        Learning rate of the server.
    """

    beta: Scalar = 0.9
    lr: Scalar = 1.0

    stage, key = Stage.OPTIMIZER, "server_momentum"
    stateful = True

    def __post_init__(self) -> None:
        scalar("server_momentum", "beta", self.beta, high=1)
        scalar("server_momentum", "lr", self.lr)

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Replace the pseudo-gradient by the scaled momentum."""
        replies = send(broadcast)
        m = context.state.get("m")
        context.state["m"] = (
            replies.delta if m is None else replies.delta + at(self.beta, broadcast.round) * m
        )
        return replies.with_delta(at(self.lr, broadcast.round) * context.state["m"])


@dataclass(frozen=True, repr=False)
class Adaptive(ServerPiece, ABC):
    """Base class of Adam, AdaGrad and Yogi: two moments, and a step scaled by the second.

    lr
        Learning rate of the server.
    b1, b2
        Decay of the first and the second moment, from 0 to 1.
    tau
        Added to the root of the second moment, above 0.
    """

    lr: Scalar = 0.1
    b1: float = 0.9
    b2: float = 0.99
    tau: float = 1e-3

    stage = Stage.OPTIMIZER
    stateful = True

    def __post_init__(self) -> None:
        _check(self.key, self.lr, self.tau, b1=self.b1, b2=self.b2)

    @abstractmethod
    def second(self, v: Tensor, square: Tensor) -> Tensor:
        """Return the new second moment."""

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Replace the pseudo-gradient by the scaled first moment."""
        replies = send(broadcast)
        delta = replies.delta
        m = context.state.get("m", torch.zeros_like(delta))
        v = context.state.get("v", torch.full_like(delta, self.tau**2))
        m = context.state["m"] = self.b1 * m + (1 - self.b1) * delta
        v = context.state["v"] = self.second(v, delta * delta)
        return replies.with_delta(at(self.lr, broadcast.round) * m / (v.sqrt() + self.tau))


@dataclass(frozen=True, repr=False)
class Adam(Adaptive):
    """``v <- b2 v + (1-b2) delta^2``."""

    key = "adam"

    def second(self, v: Tensor, square: Tensor) -> Tensor:
        """Return the exponential mean of squares."""
        return self.b2 * v + (1 - self.b2) * square


@dataclass(frozen=True, repr=False)
class Adagrad(Adaptive):
    """``v <- v + delta^2``."""

    b1: float = 0.0

    key = "adagrad"

    def second(self, v: Tensor, square: Tensor) -> Tensor:
        return v + square


@dataclass(frozen=True, repr=False)
class Yogi(Adaptive):
    """``v <- v - (1-b2) delta^2 sign(v - delta^2)``."""

    key = "yogi"

    def second(self, v: Tensor, square: Tensor) -> Tensor:
        """Move the second moment towards the square by a bounded amount."""
        return v - (1 - self.b2) * square * torch.sign(v - square)


@dataclass(frozen=True, repr=False)
class TorchAdam(ServerPiece):
    """Adam as in torch.optim: with bias correction, and ``v`` starts at 0."""

    lr: Scalar = 0.1
    b1: float = 0.9
    b2: float = 0.99
    eps: float = 0.1

    stage, key = Stage.OPTIMIZER, "adam"
    stateful = True

    def __post_init__(self) -> None:
        _check(self.key, self.lr, self.eps, b1=self.b1, b2=self.b2)

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Replace the pseudo-gradient by the bias-corrected step."""
        replies = send(broadcast)
        delta, zero = replies.delta, torch.zeros_like(replies.delta)
        count = context.state["count"] = context.state.get("count", torch.tensor(0)) + 1
        m = context.state["m"] = self.b1 * context.state.get("m", zero) + (1 - self.b1) * delta
        v = context.state["v"] = (
            self.b2 * context.state.get("v", zero) + (1 - self.b2) * delta * delta
        )
        m_hat = m / (1 - self.b1 ** int(count))
        v_hat = v / (1 - self.b2 ** int(count))
        return replies.with_delta(at(self.lr, broadcast.round) * m_hat / (v_hat.sqrt() + self.eps))


@dataclass(frozen=True, repr=False)
class TorchAdagrad(ServerPiece):
    """AdaGrad as in torch.optim: without a first moment, and the sum starts at 0."""

    lr: Scalar = 0.1
    eps: float = 1e-2

    stage, key = Stage.OPTIMIZER, "adagrad"
    stateful = True

    def __post_init__(self) -> None:
        _check(self.key, self.lr, self.eps)

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Replace the pseudo-gradient by the scaled one."""
        replies = send(broadcast)
        delta = replies.delta
        v = context.state["v"] = context.state.get("v", torch.zeros_like(delta)) + delta * delta
        return replies.with_delta(at(self.lr, broadcast.round) * delta / (v.sqrt() + self.eps))


def _check(owner: str, lr: Scalar, tau: float, **shares: float) -> None:
    scalar(owner, "lr", lr)
    number(owner, "tau", tau, low=0, open_low=True)
    for name, share in shares.items():
        number(owner, name, share, low=0, high=1)


def adaptive_optimizer(owner: str, flavour: str) -> bool:
    """Return True for ``flavour="torch"`` and False for "paper"; refuse others."""
    choice(owner, "flavour", flavour, ["paper", "torch"])
    return flavour == "torch"
