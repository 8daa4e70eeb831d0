"""How far clients walk from what they were sent.

    drift = 1/(E S) sum_e sum_k ||w_k after e epochs - w_sent||

over the S clients of the round and their E local epochs. Where a visit is a number of steps, not of epochs, its end
is the only one that counts.
"""

from __future__ import annotations

import torch

from fedflat.client.local import Local
from fedflat.client.measures import DRIFT, EpochEnds
from fedflat.client.piece import Piece
from fedflat.engine.mail import Mail, Reply, Sheaf
from fedflat.observe.watcher import Sight, Watcher
from fedflat.running.listening import Seen
from fedflat.running.prepare import Ready
from fedflat.server.piece import Stepped

NAME = DRIFT


class Drift(Watcher):
    """The mean over clients and epochs."""

    name = NAME

    def cost(self, ready: Ready) -> str:
        """One norm an epoch."""
        return f"one norm at the end of each {'visit' if _by_steps(ready.exp.local) else 'local epoch'}"

    def pieces(self, local: Local) -> tuple[Piece, ...]:
        """The one that measures."""
        return (EpochEnds(inside=not _by_steps(local)),)

    def hear(self, s: Sight, mail: Mail, reply: Reply | Sheaf) -> None:
        """Collect what it measured."""
        s.memo.setdefault(NAME, []).append(torch.as_tensor(reply.metrics[NAME], dtype=torch.float64).reshape(-1))

    def see(self, s: Sight, new: Stepped) -> Seen:
        """The mean over all replies."""
        return {NAME: float(torch.cat(s.memo[NAME]).mean())} if NAME in s.memo else {}


def _by_steps(local: Local) -> bool:
    return local.steps is not None and local.orders is None
