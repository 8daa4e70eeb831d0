"""FedInit: clients start from a point that lies away from their own last model.

Sun et al., Understanding How Consistency Works in Federated Learning via Stage-wise Relaxed
Initialization, NeurIPS 2023.

    client   starts from  w_sent + beta (w_sent - w_last_k);   afterwards  w_last_k <- w_k
    server   w <- mean(w_k)

``w_last_k`` is the client's last local model, and the initial model ``w^0`` before it first trains.
The server does not know who is new, so it sends ``w^0`` beside the model. With ``first="sent"`` it
does not, and a new client starts from ``w_sent``.

It can be added to other methods. Dual variables and proximal terms are measured from ``w_sent``. In
FL-Simulator everything is measured from the relaxed start: ``w <- w + mean(w_k - start_k)``, and so
are the dual variables of its FedDyn family: ``origin="start"``. Both agree if all clients take part
in every round.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, Piece
from fedflat.composition.method import Method, method
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import choice
from fedflat.server.piece import Send, ServerContext, ServerPiece


@dataclass(frozen=True, repr=False)
class RelaxedStart(Piece):
    """Moves the start away from the client's last model."""

    beta: Scalar = 0.1
    origin: str = "sent"
    first: str = "initial"

    stage, key = Stage.BATCH, "fedinit"
    stackable = True
    state_vectors = 1

    def __post_init__(self) -> None:
        scalar("fedinit", "beta", self.beta)
        choice("fedinit", "origin", self.origin, ["sent", "start"])
        choice("fedinit", "first", self.first, ["initial", "sent"])

    def received(self, v: ClientContext, w: Tensor) -> Tensor:
        """Return the relaxed start if everything is measured from it."""
        return self._relaxed(v, w) if self.origin == "start" else w

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        return w if self.origin == "start" else self._relaxed(v, w)

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        v.state["last"] = v.end
        return w

    def _relaxed(self, v: ClientContext, w: Tensor) -> Tensor:
        last = v.state.get("last", v.inbox.get("first"))
        return w if last is None else torch.add(w, w - last, alpha=at(self.beta, v.round))


@dataclass(frozen=True, repr=False)
class InitialModel(ServerPiece):
    """Sends the initial model beside the current one."""

    stage, key = Stage.CORRECT, "fedinit"
    stateful = True

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        first = context.state.setdefault("first", broadcast.params)
        return send(broadcast.enclose(self.key, first=first))


@method
def fedinit(
    beta: Scalar = RelaxedStart.beta,
    origin: str = RelaxedStart.origin,
    first: str = RelaxedStart.first,
) -> Method:
    """Clients start away from their last model (Sun et al., NeurIPS 2023).

    origin
        From where updates and dual variables are measured: the model that was "sent", or the
        relaxed "start", as in FL-Simulator.
    first
        What a new client moves away from: the "initial" model, or the one that was "sent", which
        is no move.
    """
    server = (InitialModel(),) if first == "initial" else ()
    client = (RelaxedStart(beta, origin, first),)
    return Method(client=client, server=server, weighting="uniform")
