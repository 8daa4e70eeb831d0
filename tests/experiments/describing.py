"""A describer, and a client piece, a server piece and an initializer that use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.instructions import Describer, Descriptions
from fedflat.client.learner import Learner
from fedflat.client.piece import ClientContext, Piece
from fedflat.client.training import ClientWork
from fedflat.core.flat import GradFn, Model
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.stage import Stage
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.initializers import First, Fresh
from fedflat.server.piece import Send, ServerContext, ServerPiece

ASKED: list[int] = []
"""Who has been asked, in this process."""
BREAK: set[int] = set()
"""At whom Ctrl-C is pressed."""


@dataclass(frozen=True, repr=False)
class Means(Describer):
    """The mean of each input over a client's examples, and how many there are, ``times`` over: a
    small matrix."""

    reveals = "the server learns what a client's inputs are on average"

    times: int = 2

    def describe(self, client: ClientWork) -> Tensor:
        if client.request.client in BREAK:
            raise KeyboardInterrupt
        ASKED.append(client.request.client)
        mean = (
            client.data.batch(torch.arange(len(client.data)), torch.float64)
            .inputs.flatten(1)
            .mean(0)
        )
        return torch.stack([mean * (at + 1) for at in range(self.times)])


@dataclass(frozen=True, repr=False)
class Pulled(Piece):
    """Adds to the gradient what every client was sent: the mean of all clients' means."""

    stage, key = Stage.CORRECT, "pulled"
    stackable = True

    @property
    def describers(self) -> tuple[Describer, ...]:
        return (Means(),)

    def shared_with_clients(self, descriptions: Descriptions) -> Mapping[str, Tensor]:
        return {"mean": torch.stack(list(descriptions[Means()])).mean(0)}

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        g = grad(w).clone()
        g[..., : v.shared["mean"].shape[1]] += v.shared["mean"][0].to(g.dtype)
        return g


@dataclass(frozen=True, repr=False)
class Noting(ServerPiece):
    """Records how many clients have sent which description, and changes nothing."""

    stage, key = Stage.OPTIMIZER, "noting"

    @property
    def describers(self) -> tuple[Describer, ...]:
        return (Means(),)

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        context.metrics["known"] = float(sum(one.sum() for one in context.descriptions[Means()]))
        return send(broadcast)


@dataclass(frozen=True, repr=False)
class FromMeans(Fresh):
    """Begins with the first parameter set to the description of the first client."""

    @property
    def describers(self) -> tuple[Describer, ...]:
        return (Means(times=1),)

    def model(
        self, exp: Experiment, learner: Learner, descriptions: Descriptions, first: First
    ) -> Model:
        model = super().model(exp, learner, descriptions, first)
        params = model.params.clone()
        params[0] = float(descriptions[Means(times=1)][0][0, 0])
        return Model(params, model.buffers)
