"""Sharpness of client models on their own data and on the data of all clients.

Caldarola et al., Beyond Local Sharpness: Communication-Efficient Global Sharpness-aware
Minimization for Federated Learning, CVPR 2025, Table 1: for each client of the last cohort, the
largest Hessian eigenvalue of its model after its local steps, on its own examples and on the union
of all training examples.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any

import torch

from fedflat.analysis.loaded_run import LoadedRun
from fedflat.client.piece import ClientState
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Reply, ReplyBatch
from fedflat.data.examples import ClientData
from fedflat.errors import SettingError
from fedflat.execution.client_states import ClientStates
from fedflat.execution.in_process import InProcess
from fedflat.experiments.open_exchange import open_exchanges
from fedflat.experiments.run_setup import RunSetup
from fedflat.flatness.curvature import CurvatureProgress, OnProgress, no_progress
from fedflat.flatness.hessian import Hessian
from fedflat.flatness.objective import BATCH
from fedflat.flatness.spectrum import eigenvalues, steps_of
from fedflat.flatness.subsample import subset
from fedflat.server.client_selection import selected_clients
from fedflat.server.exchange import Exchange
from fedflat.server.ledger import Ledger
from fedflat.server.piece import ServerState
from fedflat.server.replies import ReplyCollector
from fedflat.server.step import server_step
from fedflat.topologies.topology import SERVER

Row = dict[str, Any]
"""A client and its two eigenvalues, "local" and "global"."""


def client_models(
    setup: RunSetup,
    model: Model,
    round: int,
    cohort: Sequence[int],
    *,
    states: ServerState | None = None,
    clients: ClientStates | None = None,
) -> dict[int, Model]:
    """Return each client's model after local training in `round`, starting from `model`.

    `states` are the states of the server's pieces and `clients` those of the clients, for methods
    that have any. The run is not changed.
    """
    exp, job, models = setup.exp, replace(setup.job, returns_models=True), dict[int, Model]()
    clients = clients or ClientStates()

    def keep(broadcast: Broadcast, reply: Reply | ReplyBatch) -> ClientState:
        assert isinstance(reply, Reply)
        assert reply.client_params is not None
        models[reply.client] = reply.client_params
        return {}

    with InProcess(torch.get_num_threads()).open(job, setup.fed, setup.source) as pool:
        exchanges = open_exchanges(setup, pool)
        exchange = Exchange(
            exchanges.settings,
            pool,
            ReplyCollector(exchanges.replies, round, clients, Ledger(), [keep]),
        )
        server_step(
            exp.server_pieces(),
            states or {},
            exchange.sender(SERVER, [(client,) for client in cohort]),
            Broadcast(round, model.params, model.buffers, exp.lr(round)),
            learner=job.learner,
        )
    clients.discard()
    return models


@dataclass(frozen=True, kw_only=True)
class LocalGlobal:
    """The models of some clients, and the examples they are evaluated on."""

    setup: RunSetup
    round: int
    models: Mapping[int, Model]
    examples: int | None = None
    """Number of examples of the union, sampled by `seed`. None for all."""
    seed: int = 0
    batch_size: int = BATCH

    @cached_property
    def union(self) -> ClientData:
        return self.setup.fed.pooled().data(0)

    @cached_property
    def used(self) -> ClientData:
        return self.union if self.examples is None else subset(self.union, self.examples, self.seed)

    def rows(
        self, known: Collection[int] = (), on_progress: OnProgress = no_progress
    ) -> Iterator[Row]:
        """Compute the eigenvalues of each client's model, except for clients in `known`."""
        remaining = {client: model for client, model in self.models.items() if client not in known}
        steps, plan = steps_of(1) + 1, dict[str, float]()
        for client in remaining:
            plan[f"client {client}, own data"] = (
                steps * len(self.setup.fed.data(client)) / len(self.used)
            )
            plan[f"client {client}, all data"] = steps
        progress = CurvatureProgress(plan, on_progress)
        for client, model in remaining.items():
            local = self._largest_eigenvalue(
                f"client {client}, own data", model, self.setup.fed.data(client), progress
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
                self.setup.job.learner,
                model,
                data,
                batch_size=self.batch_size,
                on_share=progress.on_share,
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


def next_cohort(loaded: LoadedRun) -> list[int]:
    """Return the clients of the next round, or of the last one if all cohorts were given."""
    setup, round = loaded.setup, loaded.state.round
    if (
        setup.exp.topology.has_chains
        or not setup.exp.topology.synchronous
        or len(setup.server.slots) > 1
    ):
        raise SettingError(
            f"{loaded.folder}: local and global sharpness need a topology in which every client "
            f"is sent the one model of the server, found {setup.exp.topology}. "
            "Choose a run with a star."
        )
    cohorts = setup.server.population.sampler.cohorts
    return selected_clients(
        setup.server.select(round if cohorts is None else min(round, len(cohorts) - 1))
    )


def trained_client_models(loaded: LoadedRun) -> dict[int, Model]:
    """Return the models of the cohort after local training, as the run would make them."""
    state, cohort = loaded.state, next_cohort(loaded)
    return client_models(
        loaded.setup,
        state.model,
        state.round,
        cohort,
        states=state.server[SERVER],
        clients=state.clients,
    )
