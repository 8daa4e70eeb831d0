"""A client piece wraps the gradient oracle: ask it, somewhere, once or twice, and add what is to be added.

Vectors lie along the last axis. A piece whose arithmetic keeps to that works on a stack of clients as well, where
every vector is a matrix with a row for each client: it says ``stacks = True``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from fedflat.data.batch import Batch, Tensors
from fedflat.data.examples import ClientData
from fedflat.engine.flat import GradFn, Layout, Model
from fedflat.engine.seeds import of_visit, torch_generator
from fedflat.engine.stage import Stage
from fedflat.language.spelling import Spelled
from fedflat.tasks.classification import Classification
from fedflat.tasks.task import Count, Task

if TYPE_CHECKING:
    from fedflat.client.asks import Describer, Descriptions

Memory = dict[str, dict[str, Tensor]]
"""What one client remembers between its visits: piece key -> name -> tensor."""


class BatchOracle(Protocol):
    """The gradient of one batch as a function of the point."""

    loss: Tensor | None
    """The loss of the first call."""
    count: Count
    """How many things the loss was the mean of; in a stack, of each client's."""

    def __call__(self, w: Tensor) -> Tensor:
        """The gradient at ``w``."""
        ...


@dataclass
class Visit:
    """One client in one exchange, as one piece sees it."""

    key: str
    seed: int
    round: int
    client: int
    sent: Tensor
    """What the server sent: the reference of duals and prox terms."""
    start: Tensor
    """Where the walk began; differs from ``sent`` if a piece's ``begin`` moved it."""
    stop: Tensor
    """Where the walk ended; what is sent back differs if a piece's ``end`` moved it."""
    lr: float
    """The rate of the first step; pieces may have it fall within the visit (`Piece.pace`)."""
    planned: int
    """Local steps to do."""
    epochs: float
    """How often they go through the client's examples."""
    layout: Layout
    inbox: Mapping[str, Tensor]
    """This piece's extras from the server."""
    memory: dict[str, Tensor]
    """This piece's memory at this client, across rounds. Replace tensors, never change them in place."""
    examples: int
    """How many the client holds."""
    batch_size: int
    oracle: Callable[[Tensor], BatchOracle]
    """The gradient on the batch of the client's examples at the given places, as they are."""
    full_gradient: GradFn
    """The gradient over all the client's examples, of the loss with its terms."""
    inputs: Callable[[Tensor], Tensors]
    """What goes into the module of the client's examples at the given places, as they are."""
    elsewhere: Callable[[Model, Tensors], Any]
    """What another model than the client's own makes of inputs, in evaluation mode and without a gradient."""
    steps: int = 0
    walked: float = 0.0
    """The sum of the rates so far."""
    outbox: dict[str, Tensor] = field(default_factory=dict)
    """This piece's extras to the server."""
    memo: dict[str, Any] = field(default_factory=dict)
    """This piece's notes, for this visit only."""
    mean_examples: float = 0.0
    """How many examples a client holds on average over everybody, if a piece `compares`."""
    before: Tensor | None = None
    """How many clients are asked before this one in the exchange, and the sum of their mean batches, if a piece is
    `ordered`; in a stack, a row for each client."""
    visit: int = 0
    """How often the client was visited before in this exchange."""

    told: Mapping[str, Tensor] = field(default_factory=dict)
    """What this piece was told before round 0, the same at every client (`Piece.told`); no rows in a stack."""

    @cached_property
    def rng(self) -> torch.Generator:
        """This piece's own random numbers in this visit."""
        return torch_generator(self.seed, f"piece/{self.key}", *of_visit(self.round, self.client, self.visit))

    def draw(self, make: Callable[[torch.Generator], Tensor]) -> Tensor:
        """What ``make`` makes of the piece's random numbers; in a stack, a row for each client."""
        return make(self.rng)

    def change(self, batch: Batch, make: Callable[[Batch, torch.Generator], Batch]) -> Batch:
        """What ``make`` makes of a batch and the piece's random numbers; in a stack, of each client's."""
        return make(batch, self.rng)


@dataclass(frozen=True)
class Fit:
    """A model of the server as it is tested on some examples."""

    model: Model
    norms: tuple[str, ...] = ()
    """Batch normalisations that take the statistics of the test batch."""


@dataclass(frozen=True)
class Site:
    """Where a piece will work, as far as it is known before the first round."""

    pieces: Sequence[Piece]
    """The client's whole stack."""
    module: nn.Module
    layout: Layout
    task: Task = field(default_factory=Classification)
    """What is learnt."""
    sample: Tensors | None = None
    """The inputs of two examples."""


class Piece(Spelled):
    """A frozen dataclass of numbers. The base class changes nothing."""

    stage: ClassVar[Stage]
    key: ClassVar[str]
    """Its name in mail, replies and memory."""
    up: ClassVar[int] = 0
    """Vectors it adds to a reply."""
    keeps: ClassVar[int] = 0
    """Vectors of the model's size that it remembers at each client."""
    reveals: ClassVar[bool] = False
    """Whether it sends more vectors that cover every coordinate, private ones too."""
    surveys: ClassVar[int] = 0
    """Gradients over all the client's data that it asks for in a visit."""
    moves: ClassVar[bool] = False
    """Whether a memory of its own moves at each ``gradient``: then it may not be asked twice a step."""
    compares: ClassVar[bool] = False
    """Whether it must know how many examples clients hold on average."""
    ordered: ClassVar[bool] = False
    """Whether it must know what the clients before it in an exchange do."""
    anchored: ClassVar[bool] = False
    """Whether it means something only to clients that the server itself has sent its model, not to one in a chain: it
    remembers, compares or encloses what belongs to that model, without declaring vectors it keeps or sends up."""
    blind: ClassVar[bool] = False
    """Whether it learns without being told what should come out: a term that stands in the place of the task's loss.
    Clients then hold no targets."""
    stacks: ClassVar[bool] = False
    """Whether it works on many clients at once: a row for each in every vector, also in what it keeps and sends."""

    seen_only: ClassVar[bool] = False
    """Whether its models can be tested on domains that clients have only."""

    @property
    def asks(self) -> int:
        """Gradients asked for each gradient given."""
        return 1

    @property
    def describers(self) -> tuple[Describer, ...]:
        """What every client must say of itself before round 0."""
        return ()

    def told(self, descriptions: Descriptions) -> Mapping[str, Tensor]:
        """What of it every client is told, once: read in a visit as ``visit.told``."""
        return {}

    def check(self, site: Site) -> None:
        """Refuse a place where it cannot work."""

    def remark(self, site: Site) -> str:
        """What is good to know about it there, if anything."""
        return ""

    def data(self, v: Visit, data: ClientData) -> ClientData:
        """What to train on in this visit; who changes it cannot work on a stack."""
        return data

    def begin(self, v: Visit, w: Tensor) -> Tensor:
        """Where to start walking."""
        return w

    def begin_buffers(self, v: Visit, b: Tensor) -> Tensor:
        """The running statistics to start with."""
        return b

    def batch(self, v: Visit, batch: Batch) -> Batch:
        """The batch to use; the same in every gradient of the step."""
        return batch

    def gradient(self, v: Visit, grad: GradFn, w: Tensor) -> Tensor:
        """The gradient to hand on."""
        return grad(w)

    def pace(self, v: Visit) -> float:
        """What the rate of the next step is multiplied by."""
        return 1.0

    def end(self, v: Visit, w: Tensor) -> Tensor:
        """What to send back."""
        return w

    def end_buffers(self, v: Visit, b: Tensor) -> Tensor:
        """The running statistics to send back."""
        return b

    def fit(self, layout: Layout, model: Model, kept: Sequence[Mapping[str, Tensor]]) -> Fit:
        """How a model is tested on data of clients that remember ``kept``; without, where nobody has been visited."""
        return Fit(model)

    def withheld(self, layout: Layout) -> int:
        """How many numbers of the model it keeps from being sent, either way."""
        return 0


def fitting_piece(pieces: Sequence[Piece]) -> Piece | None:
    """The piece that says how models are tested, if there is one."""
    return next((piece for piece in pieces if type(piece).fit is not Piece.fit), None)


class Term(Piece, ABC):
    """A term of the loss, differentiated with it."""

    stage = Stage.TERM

    def hooks(self, module: nn.Module) -> AbstractContextManager[Any]:
        """What to keep open during the forward pass, such as forward hooks; ``loss`` is handed its value."""
        return nullcontext()

    @abstractmethod
    def loss(self, v: Visit, batch: Batch, output: Tensor, seen: Any) -> Tensor:
        """The term's value."""
