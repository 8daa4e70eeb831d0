"""Local training of the next cohort of a loaded run, without changing the run."""

from __future__ import annotations

from fedflat.analysis.loaded_run import LoadedRun
from fedflat.analysis.local_global import client_models
from fedflat.core.flat import Model
from fedflat.errors import SettingError
from fedflat.server.client_selection import selected_clients
from fedflat.topologies.topology import SERVER


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
