"""How far clients walk from what they were sent.

    drift = 1/(E S) sum_e sum_k ||w_k after e epochs - w_sent||

over the S clients of the round and their E local epochs. Where a visit is a number of steps, not of epochs, its end
is the only one that counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.local import Local
from fedflat.client.piece import Piece, Visit
from fedflat.client.visit import METRICS
from fedflat.engine.flat import GradFn
from fedflat.engine.mail import Mail, Reply, Sheaf
from fedflat.engine.stage import Stage
from fedflat.observe.watcher import Sight, Watcher
from fedflat.running.listening import Seen
from fedflat.running.prepare import Ready
from fedflat.server.piece import Stepped

NAME = "drift"


@dataclass(frozen=True, repr=False)
class EpochEnds(Piece):
    """Measures at the end of each epoch how far the client has gone; near the step, so that it is asked once each."""

    inside: bool = True
    """Whether epochs that end before the visit does count."""

    stage, key = Stage.PACE, "watch_drift"
    stacks = True

    def gradient(self, v: Visit, grad: GradFn, w: Tensor) -> Tensor:
        """The gradient as it is; ``w`` is where the step before has led."""
        if v.steps and self._ends(v):
            self._measure(v, w)
        return grad(w)

    def end(self, v: Visit, w: Tensor) -> Tensor:
        """The last epoch ends with the visit."""
        self._measure(v, v.stop)
        v.memo[METRICS] = {NAME: torch.stack(v.memo.pop("gone")).mean(dim=0)}
        return w

    def _ends(self, v: Visit) -> bool:
        """Whether an epoch was over with the step before."""
        epochs = int(v.epochs)
        whole = self.inside and epochs == v.epochs and epochs > 0 and v.planned % epochs == 0
        return whole and v.steps % (v.planned // epochs) == 0

    def _measure(self, v: Visit, w: Tensor) -> None:
        v.memo.setdefault("gone", []).append(torch.linalg.vector_norm(w - v.sent, dim=-1).double())


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
