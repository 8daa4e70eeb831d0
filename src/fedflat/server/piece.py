"""Server pieces: the building blocks of what the server does with an exchange.

The server is an optimizer whose gradient function is the federation. It sends ``w`` and receives
the pseudo-gradient ``delta``. Server pieces wrap this exchange as client pieces wrap a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from fedflat.client.instructions import Describer, Descriptions
from fedflat.client.learner import Learner
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.stage import Stage
from fedflat.data.examples import ClientData
from fedflat.registry.specs import TextSpec

Send = Callable[[Broadcast], Replies]
"""Sends a broadcast to the cohort and returns the aggregated replies: one exchange."""

ServerState = dict[str, dict[str, Tensor]]
"""What the server's pieces store between rounds: piece key -> name -> tensor."""


@dataclass(frozen=True)
class ServerData:
    """The data that the server holds, and the module to evaluate a model with.

    learner
        Module and task.
    data
        The examples.
    """

    learner: Learner
    data: ClientData


@dataclass(frozen=True)
class SelectionInfo:
    """How the cohorts of a run are selected."""

    seed: int = 0
    """Seed of the run."""
    cohort: int = 1
    """Clients per round, or their expected number."""
    sampler: str = "uniform"
    """Kind of the sampler, or "given" if the cohorts were not drawn."""
    known: bool = True
    """False in the dry run that counts a method's cost."""


@dataclass
class ServerContext:
    """What one server piece sees of the server."""

    state: dict[str, Tensor]
    """Tensors that the piece stores between rounds, by name. Replace tensors, never change them in
    place."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Measurements of this round, by name. They are written to the run's metrics."""
    server_data: ServerData | None = None
    """The server's own data, or None. Never None for a piece with `uses_data`."""
    descriptions: Descriptions = field(default_factory=dict)
    """Descriptions of all clients. They include those of the piece's `describers`."""
    learner: Learner | None = None
    """The model of the run; None in the dry run that counts a method's cost."""
    run: SelectionInfo = SelectionInfo(known=False)
    """How clients are selected."""


class ServerPiece(TextSpec):
    """Base class of server pieces; it changes nothing.

    A piece is a frozen dataclass of numbers, strings and schedules.
    """

    stage: ClassVar[Stage]
    """Its position in the order of pieces."""
    key: ClassVar[str]
    """Its name in broadcasts, replies and server state."""
    stateful: ClassVar[bool] = False
    """True if each exchange changes its state."""
    owns_step: ClassVar[bool] = False
    """True if it decides where the server steps to. A method can have only one such piece."""
    uses_data: ClassVar[bool] = False
    """True if it needs data that the server holds."""
    averages: ClassVar[str] = ""
    """How it averages the replies, if it ignores the weighting and the server learning rate to its
    left; else empty."""

    @property
    def oracle_calls(self) -> int:
        """Number of exchanges it makes for each one that it returns."""
        return 1

    @property
    def describers(self) -> tuple[Describer, ...]:
        """Descriptions that every client must compute before round 0."""
        return ()

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Send the broadcast and return the replies; a piece may change both."""
        return send(broadcast)

    def after_round(
        self, state: Mapping[str, Tensor], model: Model, completed: int, rounds: int
    ) -> Mapping[str, Tensor]:
        """Return its state after ``completed`` of ``rounds`` rounds, given the slot's new model.

        This is called before the first round and after each round, also for slots without clients
        in it.
        """
        return state
