"""The parts of a run before its first round, as `prepare` makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedflat.client.training import ClientJob
from fedflat.data.federation import Federation
from fedflat.experiments.experiment import Experiment
from fedflat.server.client_registry import ClientRegistry
from fedflat.server.ledger import Ledger
from fedflat.server.piece import ServerData
from fedflat.topologies.server_models import ServerModels


@dataclass(frozen=True)
class RunSetup:
    """A record without behaviour: `train` and others take the parts that they use.

    Descriptions of clients are in ``server.population.descriptions``.
    """

    exp: Experiment
    fed: Federation
    source: Callable[[], Federation]
    """Opens the same data in a worker process; can be pickled."""
    registry: ClientRegistry
    """What the server knows of its clients."""
    server: ServerModels
    """The server's models, and the clients as the topology sees them."""
    job: ClientJob
    """What clients do; it has the learner."""
    server_data: ServerData | None = None
    """Data of the server's own."""
    initial_cost: Ledger = Ledger()
    """The cost of the descriptions that were collected before round 0."""
