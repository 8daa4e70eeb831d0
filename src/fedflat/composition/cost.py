"""What a method costs: the server's stack is run dry, on vectors of a few numbers, and its mail is
counted."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch

from fedflat.composition.method import Method
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Replies
from fedflat.server.piece import ServerState, after_round, server_step

DIM = 16
"""Long enough that a few numbers more in a mail are no vector."""


@dataclass(frozen=True)
class Cost:
    """The price of one round for one client, and what is kept; vectors are of the model's size,
    smaller things do not count."""

    down: int
    """Vectors sent to the client."""
    up: int
    """Vectors it sends back."""
    gradients: int
    """Batch gradients for each local step."""
    local_trainings: int
    """How often the local work is done."""
    full_gradients: int
    """Gradients over all the client's data."""
    server_state: int
    """Vectors the server keeps besides the model; shadows not counted."""
    client_state: int
    """Vectors each client keeps."""
    stated: bool = True
    """Whether this is all; if not, the server's pieces could not be run dry, and it may be more."""


class _Means(dict[tuple[str, str, str], torch.Tensor]):
    """Extras of the pieces ``whole`` are vectors; those of others are smaller, here a single
    number."""

    def __init__(self, whole: set[str], vector: torch.Tensor) -> None:
        super().__init__()
        self.whole, self.vector = whole, vector

    def __missing__(self, place: tuple[str, str, str]) -> torch.Tensor:
        return self.vector if place[0] in self.whole else self.vector[0]


def cost(method: Method) -> Cost:
    """The cost of a round after the first.

    >>> from fedflat import fedavg, fedgloss, naive_fedgloss, scaffold
    >>> [(c.down, c.up) for c in map(cost, (fedavg(), scaffold(), fedgloss(), naive_fedgloss()))]
    [(1, 1), (2, 2), (1, 1), (2, 2)]
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
    here, known = Model(zeros, zeros[:0]), True
    try:
        for t in range(2):
            sent.clear()
            states = after_round(method.server, states, here, t, 2)
            states = server_step(
                method.server, states, send, Broadcast(t, here.params, here.buffers, 1.0)
            ).state
    except Exception:  # a piece that wants replies of a shape which only its clients know
        sent, states, known = [Broadcast(0, zeros, zeros[:0], 1.0)], {}, False
    asks = [broadcast.instruction for broadcast in sent]
    walks = sum(ask.trains for ask in asks)
    kept = [
        tensor for memory in states.values() for tensor in memory.values() if tensor.numel() == DIM
    ]
    remote = 0 if method.pooled else 1
    return Cost(
        down=remote * sum(broadcast.nbytes for broadcast in sent) // zeros.nbytes,
        up=remote
        * (
            sum(ask.upload_vectors for ask in asks)
            + walks * sum(piece.upload_vectors for piece in method.client)
        ),
        gradients=prod(piece.oracle_calls for piece in method.client),
        local_trainings=walks,
        full_gradients=sum(ask.full_gradients for ask in asks)
        + walks * sum(piece.full_gradients for piece in method.client),
        server_state=len(kept),
        client_state=sum(piece.state_vectors for piece in method.client),
        stated=known,
    )
