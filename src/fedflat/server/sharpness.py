"""Server-side SAM: clients train from the point nearby where the global loss is highest.

    ServerSam  eps = rho delta / ||delta||       delta of a first exchange at w: twice the traffic
    StaleSam   eps = rho delta' / ||delta'||     delta' of the previous round: no extra traffic

The step starts from ``w``, not from ``w + eps``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fedflat.core.flat import unit
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.server.piece import Send, ServerContext, ServerPiece


def ascend(broadcast: Broadcast, direction: torch.Tensor, rho: float) -> Broadcast:
    """Return the broadcast with the parameters moved by ``rho`` along ``direction``."""
    return replace(broadcast, params=torch.add(broadcast.params, unit(direction), alpha=rho))


@dataclass(frozen=True, repr=False)
class ServerSam(ServerPiece):
    """SAM on the federation: two exchanges with the same cohort. Clients do not store the first."""

    rho: Scalar

    stage, key = Stage.PROBE, "server_sam"

    def __post_init__(self) -> None:
        scalar("server SAM", "rho", self.rho)

    @property
    def oracle_calls(self) -> int:
        return 2

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Exchange at the perturbed point."""
        probe = send(replace(broadcast, commit=False))
        return send(ascend(broadcast, probe.delta, at(self.rho, broadcast.round)))


@dataclass(frozen=True, repr=False)
class StaleSam(ServerPiece):
    """SAM on the federation that ascends along the previous round's pseudo-gradient.

    Round 0 is not perturbed. With ``measure`` each round also makes the exchange that was saved,
    discards it, and records ``delta_eps``: the distance between the stale and the true
    perturbation, in ``[0, 2 rho]``.
    """

    rho: Scalar
    measure: bool = False

    stage, key = Stage.PROBE, "stale_sam"
    stateful = True

    def __post_init__(self) -> None:
        scalar("server SAM", "rho", self.rho)

    @property
    def oracle_calls(self) -> int:
        """One exchange, or two with ``measure``."""
        return 2 if self.measure else 1

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Exchange at the perturbed point."""
        last, rho = context.state.get("delta"), at(self.rho, broadcast.round)
        if last is None:
            replies = send(broadcast)
        else:
            if self.measure:
                true = send(replace(broadcast, commit=False)).delta
                context.metrics["delta_eps"] = rho * float(
                    torch.linalg.vector_norm(unit(last) - unit(true))
                )
            replies = send(ascend(broadcast, last, rho))
        context.state["delta"] = replies.delta
        return replies
