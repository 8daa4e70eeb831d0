"""A federation of one client that answers with a given pseudo-gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from fedflat.core.messages import Broadcast, Replies, Reply
from fedflat.server.step import aggregate

NONE = torch.zeros(0)


def answered(broadcast: Broadcast, delta: Tensor, buffers: Tensor = NONE) -> Replies:
    """What comes of an exchange with it."""
    reply = Reply(
        client=0,
        delta=delta,
        buffers=buffers,
        examples=1,
        samples=1,
        extras={},
        metrics={"loss": 0.0},
    )
    return aggregate(broadcast, [reply], population=1, weighting="uniform")
