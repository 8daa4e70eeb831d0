"""Cost of a method, measured by a dry run of the server's pieces on vectors of a few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import torch

from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Replies
from fedflat.server.piece import ServerState
from fedflat.server.step import after_round, server_step

if TYPE_CHECKING:
    from fedflat.composition.method import Method

DIM = 16
"""Length of the vectors. It is large enough to distinguish vectors from a few extra numbers in a
broadcast."""


@dataclass(frozen=True)
class Cost:
    """Cost of one round for one client, and stored state, in vectors of the model's size.

    Smaller tensors do not count.
    """

    down: int
    """Vectors sent to the client."""
    up: int
    """Vectors that the client sends back."""
    gradients: int
    """Batch gradients for each local step."""
    local_trainings: int
    """Number of local trainings."""
    full_gradients: int
    """Gradients over all the client's data."""
    server_state: int
    """Vectors that the server stores besides the model, without model averages."""
    client_state: int
    """Vectors that each client stores."""
    stated: bool = True
    """False if the dry run failed; then the true cost may be higher."""


class _Means(dict[tuple[str, str, str], torch.Tensor]):
    """Extras of the pieces ``whole`` are vectors; those of other pieces are one number."""

    def __init__(self, whole: set[str], vector: torch.Tensor) -> None:
        super().__init__()
        self.whole, self.vector = whole, vector

    def __missing__(self, key: tuple[str, str, str]) -> torch.Tensor:
        return self.vector if key[0] in self.whole else self.vector[0]


def cost(method: Method) -> Cost:
    """Return the cost of a round after the first.

    >>> from fedflat import fedavg, fedgloss, naive_fedgloss, scaffold
    >>> [(c.down, c.up) for c in map(cost, (fedavg(), scaffold(), fedgloss(), naive_fedgloss()))]
    [(1, 1), (2, 2), (1, 1), (2, 2)]
    """
    zeros = torch.zeros(DIM, dtype=torch.float64)
    sent, states, complete = dry_run(method)
    instructions = [broadcast.instruction for broadcast in sent]
    trainings = sum(one.trains for one in instructions)
    stored = [
        tensor for state in states.values() for tensor in state.values() if tensor.numel() == DIM
    ]
    remote = 0 if method.pooled else 1
    return Cost(
        down=remote * sum(broadcast.nbytes for broadcast in sent) // zeros.nbytes,
        up=remote
        * (
            sum(one.upload_vectors for one in instructions)
            + trainings * sum(piece.upload_vectors for piece in method.client)
        ),
        gradients=prod(piece.oracle_calls for piece in method.client)
        + sum(piece.extra_gradients for piece in method.client),
        local_trainings=trainings,
        full_gradients=sum(one.full_gradients for one in instructions)
        + trainings * sum(piece.full_gradients for piece in method.client),
        server_state=len(stored),
        client_state=sum(piece.state_vectors for piece in method.client),
        stated=complete,
    )


def dry_run(method: Method) -> tuple[list[Broadcast], ServerState, bool]:
    """Run two rounds of the server's pieces with replies of zeros.

    Returns the broadcasts of the second round, the state after it, and False if a piece failed, as
    it needs replies of a shape that only its clients know.
    """
    zeros = torch.zeros(DIM, dtype=torch.float64)
    whole = {piece.key for piece in method.client if piece.upload_vectors}
    sent: list[Broadcast] = []

    def send(broadcast: Broadcast) -> Replies:
        sent.append(broadcast.after(sent[-1] if sent else None))
        return Replies(
            broadcast, zeros, broadcast.buffers, zeros, 1, 1, 0.0, 1.0, _Means(whole, zeros)
        )

    states: ServerState = {}
    model = Model(zeros, zeros[:0])
    try:
        for t in range(2):
            sent.clear()
            states = after_round(method.server, states, model, t, 2)
            states = server_step(
                method.server, states, send, Broadcast(t, model.params, model.buffers, 1.0)
            ).state
    except Exception:
        return [Broadcast(0, zeros, zeros[:0], 1.0)], {}, False
    return sent, states, True
