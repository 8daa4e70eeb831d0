"""Probes of the server: the cohort is asked where the global loss is highest nearby.

    Sam        eps = rho delta / ||delta||           delta of a first exchange at w: true, twice the traffic
    StaleSam   eps = rho delta' / ||delta'||         delta' of the last round: free

The step is taken from ``w``, not from ``w + eps``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fedflat.engine.flat import unit
from fedflat.engine.mail import Mail, Replies
from fedflat.engine.stage import Stage
from fedflat.language.schedules import Scalar, at, scalar
from fedflat.server.piece import Desk, Send, ServerPiece


def climb(mail: Mail, direction: torch.Tensor, rho: float) -> Mail:
    """The same mail from a point ``rho`` further up along ``direction``."""
    return replace(mail, params=torch.add(mail.params, unit(direction), alpha=rho))


@dataclass(frozen=True, repr=False)
class ServerSam(ServerPiece):
    """SAM on the federation: two exchanges with the same cohort; clients forget the first."""

    rho: Scalar

    stage, key = Stage.PROBE, "server_sam"

    def __post_init__(self) -> None:
        scalar("server SAM", "rho", self.rho)

    @property
    def asks(self) -> int:
        """Two exchanges."""
        return 2

    def exchange(self, desk: Desk, send: Send, mail: Mail) -> Replies:
        """The replies from the perturbed point."""
        probe = send(replace(mail, commit=False))
        return send(climb(mail, probe.delta, at(self.rho, mail.round)))


@dataclass(frozen=True, repr=False)
class StaleSam(ServerPiece):
    """SAM on the federation with last round's pseudo-gradient for the ascent; round 0 is not perturbed.

    With ``measure`` each round also makes the exchange that was saved, forgets it, and notes ``delta_eps``:
    the distance between the stale and the true perturbation, in ``[0, 2 rho]``.
    """

    rho: Scalar
    measure: bool = False

    stage, key = Stage.PROBE, "stale_sam"
    moves = True

    def __post_init__(self) -> None:
        scalar("server SAM", "rho", self.rho)

    @property
    def asks(self) -> int:
        """One exchange, or two when measuring."""
        return 2 if self.measure else 1

    def exchange(self, desk: Desk, send: Send, mail: Mail) -> Replies:
        """The replies from the perturbed point."""
        last, rho = desk.memory.get("delta"), at(self.rho, mail.round)
        if last is None:
            replies = send(mail)
        else:
            if self.measure:
                true = send(replace(mail, commit=False)).delta
                desk.notes["delta_eps"] = rho * float(torch.linalg.vector_norm(unit(last) - unit(true)))
            replies = send(climb(mail, last, rho))
        desk.memory["delta"] = replies.delta
        return replies
