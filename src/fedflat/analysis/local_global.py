"""How sharp clients' models are on their own data, and on everybody's.

Caldarola et al., Beyond Local Sharpness: Communication-Efficient Global Sharpness-aware
Minimization for Federated Learning, CVPR 2025, Table 1: for each client of the last cohort, the
largest Hessian eigenvalue of its model after its local steps, on its own examples and on the union
of all training examples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any

from fedflat.client.piece import ClientState
from fedflat.client.training import Request, run_client
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Replies, Reply, aggregate
from fedflat.data.examples import ClientData
from fedflat.experiments.prepare import PreparedRun
from fedflat.flatness.curvature import Progress, Tell, unheard
from fedflat.flatness.hessian import Hessian
from fedflat.flatness.objective import BATCH
from fedflat.flatness.spectrum import eigenvalues, steps_of
from fedflat.flatness.subsample import subset
from fedflat.server.piece import ServerState, server_step

Remember = Callable[[int], ClientState]
"""What a client remembers from its visits before."""

Row = dict[str, Any]
"""A client and its two eigenvalues, "local" and "global"."""


def forgetful(client: int) -> ClientState:
    """Nothing: as before the first visit."""
    return {}


def client_models(
    prepared: PreparedRun,
    model: Model,
    round: int,
    cohort: Sequence[int],
    *,
    states: ServerState | None = None,
    memory: Remember = forgetful,
) -> dict[int, Model]:
    """Each client's model at the end of its visit in ``round``, as the method runs it from
    ``model``.

    ``desks`` and ``memory`` are what the server's pieces and the clients remember, for methods that
    do. Nothing of the run is changed.
    """
    exp, job, found = prepared.exp, replace(prepared.job, returns_models=True), dict[int, Model]()

    def send(broadcast: Broadcast) -> Replies:
        weighting = exp.weighting or exp.method.weighting or "sized"
        rule = exp.method.aggregator.combine if exp.method.aggregator else None
        return aggregate(
            broadcast,
            visits(broadcast),
            population=prepared.fed.population,
            weighting=weighting,
            aggregator=rule,
        )

    def visits(broadcast: Broadcast) -> Iterator[Reply]:
        broadcast = prepared.addressed(broadcast, cohort)
        for client in cohort:
            reply, _ = run_client(
                job, Request(client, broadcast, memory(client)), prepared.fed.data(client)
            )
            if broadcast.commit and reply.client_params is not None:
                found[client] = reply.client_params
            yield reply

    server_step(
        exp.method.server,
        states or {},
        send,
        Broadcast(round, model.params, model.buffers, exp.lr(round)),
    )
    return found


@dataclass(frozen=True, kw_only=True)
class LocalGlobal:
    """The models of some clients, and the sets they are looked at on."""

    prepared: PreparedRun
    round: int
    models: Mapping[int, Model]
    examples: int | None = None
    """How many of everybody's examples, drawn by ``seed``; None: all."""
    seed: int = 0
    batch_size: int = BATCH

    @cached_property
    def everybody(self) -> ClientData:
        """The examples of all clients together."""
        return self.prepared.fed.pooled().data(0)

    @cached_property
    def used(self) -> ClientData:
        """Those of them that are looked at."""
        return (
            self.everybody
            if self.examples is None
            else subset(self.everybody, self.examples, self.seed)
        )

    def rows(self, known: Collection[int] = (), on_progress: Tell = unheard) -> Iterator[Row]:
        """Largest eigenvalues of each client's model on its own data and on everybody's; not of the
        ``known``."""
        left = {client: model for client, model in self.models.items() if client not in known}
        each, plan = steps_of(1) + 1, dict[str, float]()
        for client in left:
            plan[f"client {client}, own data"] = (
                each * len(self.prepared.fed.data(client)) / len(self.used)
            )
            plan[f"client {client}, everybody's data"] = each
        progress = Progress(plan, on_progress)
        for client, model in left.items():
            own = self._top(
                f"client {client}, own data", model, self.prepared.fed.data(client), progress
            )
            abroad = self._top(f"client {client}, everybody's data", model, self.used, progress)
            yield {"client": client, "local": own, "global": abroad}

    def _top(self, what: str, model: Model, data: ClientData, progress: Progress) -> float:
        with progress.part(what, weight=len(data) / len(self.used)):
            hessian = Hessian(
                self.prepared.learner, model, data, batch_size=self.batch_size, tick=progress.tick
            )
            return float(eigenvalues(hessian, 1, seed=self.seed).values[0])

    def result(self, rows: Sequence[Row]) -> dict[str, Any]:
        """All rows, and their means, ready for JSON."""
        return {
            "round": self.round,
            "examples": len(self.used),
            "of": len(self.everybody),
            "clients": list(rows),
            "local": fmean(row["local"] for row in rows),
            "global": fmean(row["global"] for row in rows),
        }
