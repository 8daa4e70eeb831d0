"""Sharpness of client models on their own data and on the data of all clients.

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
from fedflat.experiments.requests import with_preceding
from fedflat.flatness.curvature import CurvatureProgress, OnProgress, no_progress
from fedflat.flatness.hessian import Hessian
from fedflat.flatness.objective import BATCH
from fedflat.flatness.spectrum import eigenvalues, steps_of
from fedflat.flatness.subsample import subset
from fedflat.server.piece import ServerState, server_step

LoadState = Callable[[int], ClientState]
"""Returns the stored state of a client."""

Row = dict[str, Any]
"""A client and its two eigenvalues, "local" and "global"."""


def no_state(client: int) -> ClientState:
    """Return an empty state, as before the first round of a client."""
    return {}


def client_models(
    prepared: PreparedRun,
    model: Model,
    round: int,
    cohort: Sequence[int],
    *,
    states: ServerState | None = None,
    memory: LoadState = no_state,
) -> dict[int, Model]:
    """Return each client's model after local training in `round`, starting from `model`.

    `states` are the states of the server's pieces and `memory` returns those of the clients, for
    methods that have any. The run is not changed.
    """
    exp, job, models = prepared.exp, replace(prepared.job, returns_models=True), dict[int, Model]()

    def send(broadcast: Broadcast) -> Replies:
        weighting = exp.weighting or exp.method.weighting or "sized"
        rule = exp.method.aggregator.combine if exp.method.aggregator else None
        return aggregate(
            broadcast,
            run_clients(broadcast),
            population=prepared.fed.population,
            weighting=weighting,
            aggregator=rule,
        )

    def run_clients(broadcast: Broadcast) -> Iterator[Reply]:
        broadcast = with_preceding(broadcast, cohort, prepared.job, prepared.registry)
        for client in cohort:
            reply, _ = run_client(
                job, Request(client, broadcast, memory(client)), prepared.fed.data(client)
            )
            if broadcast.commit and reply.client_params is not None:
                models[client] = reply.client_params
            yield reply

    server_step(
        exp.method.server,
        states or {},
        send,
        Broadcast(round, model.params, model.buffers, exp.lr(round)),
        learner=prepared.learner,
    )
    return models


@dataclass(frozen=True, kw_only=True)
class LocalGlobal:
    """The models of some clients, and the examples they are evaluated on."""

    prepared: PreparedRun
    round: int
    models: Mapping[int, Model]
    examples: int | None = None
    """Number of examples of the union, sampled by `seed`. None for all."""
    seed: int = 0
    batch_size: int = BATCH

    @cached_property
    def union(self) -> ClientData:
        """The training examples of all clients."""
        return self.prepared.fed.pooled().data(0)

    @cached_property
    def used(self) -> ClientData:
        """The examples of the union that are used."""
        return self.union if self.examples is None else subset(self.union, self.examples, self.seed)

    def rows(
        self, known: Collection[int] = (), on_progress: OnProgress = no_progress
    ) -> Iterator[Row]:
        """Compute the eigenvalues of each client's model, except for clients in `known`."""
        remaining = {client: model for client, model in self.models.items() if client not in known}
        steps, plan = steps_of(1) + 1, dict[str, float]()
        for client in remaining:
            plan[f"client {client}, own data"] = (
                steps * len(self.prepared.fed.data(client)) / len(self.used)
            )
            plan[f"client {client}, all data"] = steps
        progress = CurvatureProgress(plan, on_progress)
        for client, model in remaining.items():
            local = self._largest_eigenvalue(
                f"client {client}, own data", model, self.prepared.fed.data(client), progress
            )
            global_ = self._largest_eigenvalue(
                f"client {client}, all data", model, self.used, progress
            )
            yield {"client": client, "local": local, "global": global_}

    def _largest_eigenvalue(
        self, what: str, model: Model, data: ClientData, progress: CurvatureProgress
    ) -> float:
        with progress.part(what, weight=len(data) / len(self.used)):
            hessian = Hessian(
                self.prepared.learner, model, data, batch_size=self.batch_size, tick=progress.tick
            )
            return float(eigenvalues(hessian, 1, seed=self.seed).values[0])

    def result(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Return all rows and their means as JSON values."""
        return {
            "round": self.round,
            "examples": len(self.used),
            "of": len(self.union),
            "clients": list(rows),
            "local": fmean(row["local"] for row in rows),
            "global": fmean(row["global"] for row in rows),
        }
