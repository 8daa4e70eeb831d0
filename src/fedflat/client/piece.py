"""A client piece wraps the gradient oracle: ask it, somewhere, once or twice, and add what is to be
added.

Vectors lie along the last axis. A piece whose arithmetic keeps to that works on a stack of clients
as well, where every vector is a matrix with a row for each client: it says ``stacks = True``.
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

from fedflat.core.flat import GradFn, Layout, Model
from fedflat.core.seeds import request_seed, torch_generator
from fedflat.core.stage import Stage
from fedflat.data.batch import Batch, Tensors
from fedflat.data.examples import ClientData
from fedflat.registry.specs import TextSpec
from fedflat.tasks.classification import Classification
from fedflat.tasks.task import Count, Task

if TYPE_CHECKING:
    from fedflat.client.instructions import Describer, Descriptions

ClientState = dict[str, dict[str, Tensor]]
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
class ClientContext:
    """One client in one exchange, as one piece sees it."""

    key: str
    seed: int
    round: int
    client: int
    sent: Tensor
    """What the server sent: the reference of duals and prox terms."""
    start: Tensor
    """Where the walk began; differs from ``sent`` if a piece's ``begin`` moved it."""
    end: Tensor
    """Where the walk ended; what is sent back differs if a piece's ``end`` moved it."""
    lr: float
    """The rate of the first step; pieces may have it fall within the visit (`Piece.lr_factor`)."""
    planned_steps: int
    """Local steps to do."""
    epochs: float
    """How often they go through the client's examples."""
    layout: Layout
    inbox: Mapping[str, Tensor]
    """This piece's extras from the server."""
    state: dict[str, Tensor]
    """This piece's memory at this client, across rounds. Replace tensors, never change them in
    place."""
    examples: int
    """How many the client holds."""
    batch_size: int
    oracle: Callable[[Tensor], BatchOracle]
    """The gradient on the batch of the client's examples at the given places, as they are."""
    full_gradient: GradFn
    """The gradient over all the client's examples, of the loss with its terms."""
    inputs: Callable[[Tensor], Tensors]
    """What goes into the module of the client's examples at the given places, as they are."""
    output_of: Callable[[Model, Tensors], Any]
    """What another model than the client's own makes of inputs, in evaluation mode and without a
    gradient."""
    steps: int = 0
    lr_sum: float = 0.0
    """The sum of the rates so far."""
    outbox: dict[str, Tensor] = field(default_factory=dict)
    """This piece's extras to the server."""
    scratch: dict[str, Any] = field(default_factory=dict)
    """This piece's notes, for this visit only."""
    mean_examples: float = 0.0
    """How many examples a client holds on average over everybody, if a piece `compares`."""
    preceding: Tensor | None = None
    """How many clients are asked before this one in the exchange, and the sum of their mean
    batches, if a piece is `ordered`; in a stack, a row for each client."""
    repetition: int = 0
    """How often the client was visited before in this exchange."""

    shared: Mapping[str, Tensor] = field(default_factory=dict)
    """What this piece was told before round 0, the same at every client
    (`Piece.shared_with_clients`); no rows in a stack."""

    @cached_property
    def rng(self) -> torch.Generator:
        """This piece's own random numbers in this visit."""
        return torch_generator(
            self.seed, f"piece/{self.key}", *request_seed(self.round, self.client, self.repetition)
        )

    def draw(self, make: Callable[[torch.Generator], Tensor]) -> Tensor:
        """What ``make`` makes of the piece's random numbers; in a stack, a row for each client."""
        return make(self.rng)

    def transform(self, batch: Batch, make: Callable[[Batch, torch.Generator], Batch]) -> Batch:
        """What ``make`` makes of a batch and the piece's random numbers; in a stack, of each
        client's."""
        return make(batch, self.rng)


@dataclass(frozen=True)
class EvalModel:
    """A model of the server as it is tested on some examples."""

    model: Model
    batch_statistics: tuple[str, ...] = ()
    """Batch normalisations that take the statistics of the test batch."""


@dataclass(frozen=True)
class ModelInfo:
    """Where a piece will work, as far as it is known before the first round."""

    pieces: Sequence[Piece]
    """The client's whole stack."""
    module: nn.Module
    layout: Layout
    task: Task = field(default_factory=Classification)
    """What is learnt."""
    sample: Tensors | None = None
    """The inputs of two examples."""


class Piece(TextSpec):
    """A frozen dataclass of numbers. The base class changes nothing."""

    stage: ClassVar[Stage]
    key: ClassVar[str]
    """Its name in mail, replies and memory."""
    upload_vectors: ClassVar[int] = 0
    """Vectors it adds to a reply."""
    state_vectors: ClassVar[int] = 0
    """Vectors of the model's size that it remembers at each client."""
    uploads_private: ClassVar[bool] = False
    """Whether it sends more vectors that cover every coordinate, private ones too."""
    full_gradients: ClassVar[int] = 0
    """Gradients over all the client's data that it asks for in a visit."""
    stateful: ClassVar[bool] = False
    """Whether a memory of its own moves at each ``gradient``: then it may not be asked twice a
    step."""
    needs_mean_examples: ClassVar[bool] = False
    """Whether it must know how many examples clients hold on average."""
    needs_cohort_order: ClassVar[bool] = False
    """Whether it must know what the clients before it in an exchange do."""
    needs_server_model: ClassVar[bool] = False
    """Whether it means something only to clients that the server itself has sent its model, not to
    one in a chain: it remembers, compares or encloses what belongs to that model, without declaring
    vectors it keeps or sends up."""
    unsupervised: ClassVar[bool] = False
    """Whether it learns without being told what should come out: a term that stands in the place of
    the task's loss. Clients then hold no targets."""
    stackable: ClassVar[bool] = False
    """Whether it works on many clients at once: a row for each in every vector, also in what it
    keeps and sends."""

    seen_domains_only: ClassVar[bool] = False
    """Whether its models can be tested on domains that clients have only."""

    @property
    def oracle_calls(self) -> int:
        """Gradients asked for each gradient given."""
        return 1

    @property
    def describers(self) -> tuple[Describer, ...]:
        """What every client must say of itself before round 0."""
        return ()

    def shared_with_clients(self, descriptions: Descriptions) -> Mapping[str, Tensor]:
        """What of it every client is told, once: read in a visit as ``visit.told``."""
        return {}

    def check(self, site: ModelInfo) -> None:
        """Refuse a place where it cannot work."""

    def remark(self, site: ModelInfo) -> str:
        """What is good to know about it there, if anything."""
        return ""

    def data(self, v: ClientContext, data: ClientData) -> ClientData:
        """What to train on in this visit; who changes it cannot work on a stack."""
        return data

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Where to start walking."""
        return w

    def begin_buffers(self, v: ClientContext, b: Tensor) -> Tensor:
        """The running statistics to start with."""
        return b

    def batch(self, v: ClientContext, batch: Batch) -> Batch:
        """The batch to use; the same in every gradient of the step."""
        return batch

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """The gradient to hand on."""
        return grad(w)

    def lr_factor(self, v: ClientContext) -> float:
        """What the rate of the next step is multiplied by."""
        return 1.0

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """What to send back."""
        return w

    def end_buffers(self, v: ClientContext, b: Tensor) -> Tensor:
        """The running statistics to send back."""
        return b

    def eval_model(
        self, layout: Layout, model: Model, kept: Sequence[Mapping[str, Tensor]]
    ) -> EvalModel:
        """How a model is tested on data of clients that remember ``kept``; without, where nobody
        has been visited."""
        return EvalModel(model)

    def private_size(self, layout: Layout) -> int:
        """How many numbers of the model it keeps from being sent, either way."""
        return 0


def eval_model_piece(pieces: Sequence[Piece]) -> Piece | None:
    """The piece that says how models are tested, if there is one."""
    return next((piece for piece in pieces if type(piece).eval_model is not Piece.eval_model), None)


class Term(Piece, ABC):
    """A term of the loss, differentiated with it."""

    stage = Stage.TERM

    def hooks(self, module: nn.Module) -> AbstractContextManager[Any]:
        """What to keep open during the forward pass, such as forward hooks; ``loss`` is handed its
        value."""
        return nullcontext()

    @abstractmethod
    def loss(self, v: ClientContext, batch: Batch, output: Tensor, seen: Any) -> Tensor:
        """The term's value."""
