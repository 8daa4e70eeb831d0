"""The groups that a run would have. Clients are only asked for their descriptions, as before round
0."""

from __future__ import annotations

from functools import partial
from typing import Any

from fedflat.composition.method import Method
from fedflat.data.cache import opened_once
from fedflat.data.federation import DataSpec
from fedflat.experiments.api import experiment
from fedflat.experiments.descriptions import collect_descriptions
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.groups import groups_of
from fedflat.experiments.prepare import describers_of, prepare
from fedflat.experiments.run_folder.groups import Grouped
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.study import Reporter
from fedflat.experiments.train import train_first
from fedflat.topologies.clusters import Clusters
from fedflat.topologies.groupings.grouping import Grouping


@opened_once()
def groups_described(
    on: DataSpec,
    grouping: Grouping,
    seed: int,
    config: ExecutionConfig,
    reporter: Reporter = Reporter(),
    **settings: Any,
) -> Grouped:
    """The groups of a data set's clients, as a run with this seed and these settings makes them.

    Neither the method nor the topology of the run matters: clients describe themselves by plain
    local steps from a fresh model, and are put together by the seed.
    """
    asking = Method(topology=Clusters(grouping), text=repr(grouping))
    setup = prepare(
        experiment(asking, on, rounds=1, seed=seed, clients_per_round=1, **settings), config.device
    )
    for one in describers_of(setup.exp, setup.job):
        reporter.note(f"  every client is asked for {one}: {one.reveals}")
    executor = config.resolved(config.loads(setup), reporter.note).make()
    run_folder, on_progress = RunFolder(), reporter.announce(setup.exp, 1, 1)
    setup = collect_descriptions(
        setup,
        run_folder,
        executor,
        partial(train_first, run_folder, executor, on_progress, config.device),
        on_progress,
    )
    found = groups_of(setup.exp.topology, setup.server.population, setup.fed)
    assert found is not None
    return found
