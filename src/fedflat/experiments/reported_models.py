"""The models of a run by name, and which of them is reported.

A run reports its last average; without one, the server's model. If the server has several models,
it reports the one that stands for all of them (`ServerModels.center`), and beside it each of them
under the name of its slot, if the topology reports slots. If no model stands for all, the reported
model is that of the slot with the most examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fedflat.core.flat import Model
from fedflat.experiments.run_setup import RunSetup
from fedflat.server.averaging import AverageState, ModelAverage, RunInfo
from fedflat.server.client_registry import ClientRegistry
from fedflat.topologies.topology import SERVER, ServerModels


@dataclass(frozen=True)
class ReportedModels:
    """The server's models and their averages, by name."""

    server: ServerModels
    registry: ClientRegistry
    averages: Sequence[ModelAverage]
    info: RunInfo

    def by_name(
        self, done: int, models: Mapping[str, Model], averages: Mapping[str, AverageState]
    ) -> dict[str, Model]:
        """The server's models and the averages that have begun, the reported one last."""
        center = self.server.center(done, models)
        named = {slot: models[slot] for slot in self.server.reported_slots}
        if center is None:
            examples = self.examples()
            largest = max(named, key=lambda slot: examples[slot])
            return {
                **{slot: model for slot, model in named.items() if slot != largest},
                largest: named[largest],
            }
        named[SERVER] = center
        for average in self.averages:
            params = average.params(averages[average.key], self.info, center.params)
            if params is not None:
                named[average.key] = replace(center, params=params)
        return named

    def examples(self) -> dict[str, int]:
        """Training examples of each slot's clients."""
        sizes = self.registry.sizes()
        return {
            slot: sum(sizes[client] for client in clients)
            for slot, clients in self.server.slots.items()
        }


def run_info(setup: RunSetup) -> RunInfo:
    """The facts of a run that averages use."""
    return RunInfo(setup.exp.rounds, setup.registry.population, setup.job.learner.flat.layout)


def reported_models(setup: RunSetup) -> ReportedModels:
    """The models that a run reports."""
    return ReportedModels(setup.server, setup.registry, setup.exp.method.averages, run_info(setup))
