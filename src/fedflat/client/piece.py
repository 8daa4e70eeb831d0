"""Client pieces: the building blocks of what a client does in local training.

A piece wraps the gradient function of a batch. It calls the function, at one or more points, and
may add to its result. A piece can also change the start point, the batch, the learning rate, and
what is sent back.

Vectors use the last axis. A piece with ``stackable = True`` also works on a stack of clients, where
every vector is a matrix with one row per client.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol

import torch
from torch import Tensor, nn

from fedflat.core.flat import GradFn, Layout, Model
from fedflat.core.seeds import request_seed, torch_generator
from fedflat.core.stage import Stage
from fedflat.data.examples import Batch, ClientData, Tensors
from fedflat.errors import SettingError
from fedflat.models.spec import ModelSpec
from fedflat.registry.specs import TextSpec
from fedflat.tasks.classification import Classification
from fedflat.tasks.task import Count, Task

if TYPE_CHECKING:
    from fedflat.client.instructions import Describer, Descriptions

ClientState = dict[str, dict[str, Tensor]]
"""What one client stores between its requests: piece key -> name -> tensor."""


def _no_module(*given: Any) -> NoReturn:
    raise AssertionError("a stack of clients has no module of one client")


class BatchOracle(Protocol):
    """The gradient of one batch as a function of the point."""

    loss: Tensor | None
    """Mean loss of the batch at the first call; None before it."""
    count: Count
    """Number of items that the loss is a mean of; one number per client in a stack."""

    def __call__(self, w: Tensor) -> Tensor:
        """Return the gradient at ``w``."""
        ...


@dataclass
class ClientContext:
    """What one piece sees of one client in one exchange."""

    key: str
    """Key of the piece."""
    seed: int
    """Seed of the run."""
    round: int
    """Number of the round, from 0."""
    client: int
    """Number of the client, from 0; -1 in a stack."""
    sent: Tensor
    """Parameters that the client received: the reference of dual variables and proximal terms."""
    start: Tensor
    """Parameters before the first local step. They differ from ``sent`` if a piece's ``begin``
    changed them."""
    end: Tensor
    """Parameters after the last local step; valid in `Piece.end`. A piece's ``end`` may send back
    others."""
    lr: float
    """Learning rate of the first local step. Pieces may change later ones (`Piece.lr_factor`)."""
    planned_steps: int
    """Number of local steps in this exchange."""
    epochs: float
    """Number of passes over the client's examples in this exchange."""
    layout: Layout
    """Names, shapes and positions of the parameters in a flat vector."""
    inbox: Mapping[str, Tensor]
    """Tensors that the server's half of this piece sent, by name."""
    state: dict[str, Tensor]
    """Tensors that this piece stores at this client across rounds, by name. Replace tensors, never
    change them in place."""
    examples: int
    """Number of training examples of the client."""
    batch_size: int
    """Number of examples in a full batch."""
    oracle: Callable[[Tensor], BatchOracle]
    """Given indices of the client's examples, the gradient function of that batch, without
    augmentation."""
    full_gradient: GradFn
    """The gradient of the loss, with its terms, over all the client's examples."""
    inputs: Callable[[Tensor], Tensors]
    """Given indices of the client's examples, their model inputs, without augmentation."""
    output_of: Callable[[Model, Tensors], Any]
    """The outputs of any model on the given inputs, in evaluation mode and without a gradient."""
    steps: int = 0
    """Number of local steps done so far."""
    lr_sum: float = 0.0
    """Sum of the learning rates of the steps done so far."""
    outbox: dict[str, Tensor] = field(default_factory=dict)
    """Tensors that this piece sends to the server, by name."""
    scratch: dict[str, Any] = field(default_factory=dict)
    """Values that this piece stores for this exchange only."""
    mean_examples: float = 0.0
    """Mean number of examples per client, over all clients; set if a piece has
    `needs_mean_examples`."""
    preceding: Tensor | None = None
    """Number of clients before this one in the cohort, and the sum of their mean batch sizes; set
    if a piece has `needs_cohort_order`. One row per client in a stack."""
    repetition: int = 0
    """How many times the client was already trained in this exchange, as a chain may repeat a
    client."""
    pieces: Sequence[Piece] = ()
    """All client pieces of the run, in order."""
    sent_buffers: Tensor = field(default_factory=lambda: torch.zeros(0))
    """Running statistics that the client received."""
    class_counts: Callable[[], Tensor] = _no_module
    """The number of the client's examples of each class."""

    shared: Mapping[str, Tensor] = field(default_factory=dict)
    """Tensors from `Piece.shared_with_clients`, the same for every client; without rows in a stack.
    """
    gradient_of: Callable[..., Tensor] = _no_module
    """The gradient of another loss of the module in training, given the loss and the point. It
    updates running statistics unless ``move_buffers`` is False. After ``first_pass=True`` the
    gradient of the step does not update them again."""
    value_of: Callable[[Callable[[nn.Module], Any], Model], Any] = _no_module
    """The value of a function of the module with the parameters of any model, in evaluation mode
    and without a gradient."""

    @cached_property
    def rng(self) -> torch.Generator:
        """Random generator of this piece for this client and exchange.

        It depends on (seed, "piece/KEY", round, client), and on the repetition if a chain trains
        the client again. Both exchanges of a round draw the same numbers. Later steps of an
        exchange continue the sequence.
        """
        return torch_generator(
            self.seed, f"piece/{self.key}", *request_seed(self.round, self.client, self.repetition)
        )

    def draw(self, make: Callable[[torch.Generator], Tensor]) -> Tensor:
        """Call ``make`` with the piece's random generator.

        In a stack, call it once per client and stack the results. Draw in one number
        type and convert, so that runs in all types use the same numbers.
        """
        return make(self.rng)

    def transform(self, batch: Batch, make: Callable[[Batch, torch.Generator], Batch]) -> Batch:
        """Call ``make`` with a batch and the piece's generator.

        In a stack, call it once per client.
        """
        return make(batch, self.rng)


@dataclass(frozen=True)
class EvalModel:
    """A server model, prepared for evaluation on the data of some clients."""

    model: Model
    batch_statistics: tuple[str, ...] = ()
    """Names of batch normalisation layers that use the statistics of the test batch."""


@dataclass(frozen=True)
class ModelInfo:
    """What is known about the model and the task before the first round.

    module
        The network.
    layout
        Names and shapes of its parameters.
    """

    pieces: Sequence[Piece]
    """All client pieces of the method, in order."""
    module: nn.Module
    layout: Layout
    task: Task = field(default_factory=Classification)
    """The task to learn."""
    sample: Tensors | None = None
    """The inputs of two examples, to try the module on; None if unknown."""


class Piece(TextSpec):
    """Base class of client pieces; it changes nothing.

    A piece is a frozen dataclass of numbers, strings and schedules. Only `stage` and `key` must be
    set. The other attributes are declarations; each default means that the piece has nothing to
    declare. Most pieces set at most `stackable`, `state_vectors` and `upload_vectors`.
    """

    stage: ClassVar[Stage]
    """Its position in the order of pieces."""
    key: ClassVar[str]
    """Its name in broadcasts, replies and client state."""

    # Speed
    stackable: ClassVar[bool] = False
    """True if it works on a stack of clients, with one row per client in every vector."""

    # Cost: shown by `fedflat list methods`, used by clocks, and compared with real runs in tests
    state_vectors: ClassVar[int] = 0
    """Number of vectors of the model's size that it stores at each client."""
    upload_vectors: ClassVar[int] = 0
    """Number of vectors of the model's size that it adds to a reply."""
    full_gradients: ClassVar[int] = 0
    """Number of gradients over all the client's data that it computes in one exchange."""
    extra_gradients: ClassVar[int] = 0
    """Number of gradients of another loss that it computes in each step."""

    # Privacy: `fedflat list methods NAME` prints what leaves a client
    uploads_statistics: ClassVar[str] = ""
    """What its smaller tensors in a reply reveal to the server about the client's data; empty if it
    adds none."""
    uploads_private: ClassVar[bool] = False
    """True if the vectors it sends also cover parameters that are private to the client."""

    # Combinations: what it cannot be used with, or what it must be given
    stateful: ClassVar[bool] = False
    """True if each ``gradient`` call changes its state, so that it must be called only once per
    step."""
    needs_server_model: ClassVar[bool] = False
    """True if the piece must start from the server's model and so cannot be used inside a chain.
    Pieces with `upload_vectors` or `state_vectors` need no flag."""
    needs_mean_examples: ClassVar[bool] = False
    """True if it needs the mean number of examples per client (`ClientContext.mean_examples`)."""
    needs_cohort_order: ClassVar[bool] = False
    """True if it needs to know which clients precede its own (`ClientContext.preceding`)."""
    unsupervised: ClassVar[bool] = False
    """True if it is a loss term that replaces the task's loss and uses no targets."""
    seen_domains_only: ClassVar[bool] = False
    """True if its models can be evaluated only on domains that some client has."""

    @property
    def known_domains(self) -> int:
        """Number of known domains that the module takes as a second input; 0 if it takes none."""
        return 0

    def module(self, build: BuildNetwork, sample: Tensor) -> nn.Module:
        """Return the module to train, made from networks that ``build`` makes.

        ``sample`` has the inputs of two examples.
        """
        return build()

    @property
    def oracle_calls(self) -> int:
        """Number of gradients it computes for each gradient it returns."""
        return 1

    @property
    def describers(self) -> tuple[Describer, ...]:
        """Descriptions that every client must compute before round 0."""
        return ()

    def shared_with_clients(self, descriptions: Descriptions) -> Mapping[str, Tensor]:
        """Return tensors to send to every client, once.

        Pieces read them as `ClientContext.shared`.
        """
        return {}

    def joined(self, other: Piece) -> Piece | None:
        """Return one piece that does the work of this one and ``other``, or None if none can.

        It is called for two pieces that both choose the point of the gradient.
        """
        return None

    def check(self, model_info: ModelInfo) -> None:
        """Raise `SettingError` if the piece cannot be used with this model or task."""

    def remark(self, model_info: ModelInfo) -> str:
        """Return a note for the user about this piece and model, or an empty string."""
        return ""

    def data(self, v: ClientContext, data: ClientData) -> ClientData:
        """Return the data to train on. A piece that changes them is not ``stackable``."""
        return data

    def received(self, v: ClientContext, w: Tensor) -> Tensor:
        """Return the parameters that count as received, given those of the pieces before this one.

        They become `ClientContext.sent` of every piece, and the update is measured from them.
        """
        return w

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Return the parameters to start local training from."""
        return w

    def begin_buffers(self, v: ClientContext, b: Tensor) -> Tensor:
        """Return the running statistics to start local training with."""
        return b

    def batch(self, v: ClientContext, batch: Batch) -> Batch:
        """Return the batch to use in every gradient of the step."""
        return batch

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return the gradient at ``w``.

        ``grad`` is the gradient function of the pieces inside this one. Frozen parameters have
        gradient 0, and their step is set to 0 after all pieces. A piece that adds a vector must add
        0 there (`Layout.frozen_mask`), or a later clip counts it.
        """
        return grad(w)

    def lr_factor(self, v: ClientContext) -> float:
        """Return the factor of the next step's learning rate."""
        return 1.0

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Return the parameters to send back."""
        return w

    def end_buffers(self, v: ClientContext, b: Tensor) -> Tensor:
        """Return the running statistics to send back."""
        return b

    def upload(self, v: ClientContext, delta: Tensor) -> Tensor:
        """Return the update to send back, given that of the pieces before this one.

        It is called after every piece's ``end``, in the order of the pieces.
        """
        return delta

    def eval_model(
        self, layout: Layout, model: Model, states: Sequence[Mapping[str, Tensor]]
    ) -> EvalModel:
        """Return the model to evaluate on data of clients with these states of the piece.

        ``states`` is empty where no client has trained yet.
        """
        return EvalModel(model)

    def states_from_shared(
        self, shared: Mapping[str, Tensor]
    ) -> Sequence[Mapping[str, Tensor]] | None:
        """Return the states for `eval_model` of all clients, if they follow from what is shared.

        None: they are what clients store.
        """
        return None

    def private_size(self, layout: Layout) -> int:
        """Return how many of the model's parameters are never sent in either direction."""
        return 0


class BuildNetwork(Protocol):
    """Makes a new network of the run's model, by PyTorch's current random state."""

    def __call__(self, outputs: int | None = None, spec: ModelSpec | None = None) -> nn.Module:
        """The network for the run's task, or one that classifies inputs into ``outputs``.

        A classifier may be of another model, ``spec``.
        """
        ...


def module_piece(pieces: Sequence[Piece]) -> Piece | None:
    """Return the piece that overrides `Piece.module`, or None. There may be only one."""
    found = [piece for piece in pieces if type(piece).module is not Piece.module]
    if len(found) > 1:
        raise SettingError(
            f"{found[0]} and {found[1]} both change the network. Leave one of them out."
        )
    return found[0] if found else None


def eval_model_piece(pieces: Sequence[Piece]) -> Piece | None:
    """Return the first piece that overrides `Piece.eval_model`, or None."""
    return next((piece for piece in pieces if type(piece).eval_model is not Piece.eval_model), None)


class Term(Piece, ABC):
    """A term that is added to the loss and differentiated with it."""

    stage = Stage.TERM

    def hooks(self, module: nn.Module) -> AbstractContextManager[Any]:
        """Return a context for the forward pass, such as forward hooks.

        Its value is passed to ``loss``.
        """
        return nullcontext()

    def scores(self, v: ClientContext, output: Any) -> Any:
        """Return the outputs that the task's loss is computed from.

        Terms are computed from the module's own outputs.
        """
        return output

    @abstractmethod
    def loss(self, v: ClientContext, batch: Batch, output: Tensor, seen: Any) -> Tensor:
        """Return the value of the term. ``seen`` is what ``hooks`` yielded."""
