"""Messages between server and clients.

One **exchange** sends a `Broadcast` to each client of the cohort and gets a `Reply` from each. Its
`Instruction` is what the client shall do: `Train`, or one of those in `client/instructions.py`.
Clients that were trained as a stack reply in one `ReplyBatch`. The server aggregates replies into
`Replies`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from fedflat.core.codecs import Packed
from fedflat.core.flat import Model
from fedflat.core.seeds import request_seed
from fedflat.registry.specs import TextSpec, register

WEIGHT = "weight"
"""The metric that replaces the number of examples as a client's weight under "sized" weighting."""
Extras = Mapping[str, Mapping[str, Tensor]]
"""Tensors that pieces add to a message: piece key -> name -> tensor."""


def _tensors(extras: Extras) -> list[Tensor]:
    return [t for named in extras.values() for t in named.values()]


def _nbytes(*tensors: Tensor, extras: Extras) -> int:
    return sum(t.numel() * t.element_size() for t in (*tensors, *_tensors(extras)))


class Instruction(TextSpec, ABC):
    """Work for a client, such as ``train()``: a frozen dataclass with a `run` method.

    Its text is sent and parsed again on the client. Other code never tests the
    type of an instruction. It reads the class attributes below.
    """

    trains: ClassVar[bool] = False
    """True if the client trains as the method says.

    Its delta is then a step that the server may scale and record, and the method's private
    parameters are not sent.
    """
    commits: ClassVar[bool] = False
    """True if a request with ``commit`` changes client state and counts for model averages."""
    stackable: ClassVar[bool] = False
    """True if many clients can run it at once, as rows of one tensor."""
    needs_model: bool = True
    """True if the model must be sent with the instruction."""
    tests: bool = False
    """True if local training must also evaluate the client's model on the client's test data."""
    upload_vectors: ClassVar[int] = 0
    """Vectors of the model's size that are sent back, not counting those of the method's pieces."""
    full_gradients: ClassVar[int] = 0
    """Full gradients that the client computes, over all of its data."""

    def job(self, job: Any) -> Any:
        """The client's job, adapted to this instruction."""
        return job

    def work(self, job: Any, examples: int, samples: int) -> int:
        """Number of per-example gradients that a client with ``examples`` examples computes.

        ``samples`` is the number of examples that local training processes, epochs included.
        """
        return self.full_gradients * examples

    @abstractmethod
    def run(self, client: Any) -> Any:
        """Run the instruction for one client or a stack of clients.

        Returns the reply and the new client state.
        """


class LocalWork(Protocol):
    """A client, or a stack of clients, that can train."""

    def local_train(self) -> Any:
        """Train from the parameters that were sent."""
        ...

    def full_gradient(self) -> Any:
        """Compute the gradient over all data at the parameters that were sent."""
        ...


def local_work(pieces: Sequence[Any], examples: int, samples: int) -> int:
    """Return the cost of local training, in gradients of single examples.

    Gradients over all the client's data are included.
    """
    per_sample: int = math.prod(piece.oracle_calls for piece in pieces)
    per_sample += sum(piece.extra_gradients for piece in pieces)
    full_gradients: int = sum(piece.full_gradients for piece in pieces)
    return samples * per_sample + examples * full_gradients


@register("instruction", "train")
@dataclass(frozen=True, repr=False)
class Train(Instruction):
    """Local training with the method's pieces.

    With ``tests`` the client then evaluates its own model on its own test examples.
    """

    tests: bool = False

    trains = commits = stackable = True
    upload_vectors = 1

    def work(self, job: Any, examples: int, samples: int) -> int:
        """Return the cost of local training."""
        return local_work(job.pieces, examples, samples)

    def run(self, client: LocalWork) -> Any:
        return client.local_train()


@dataclass(frozen=True)
class Broadcast:
    """A message from the server to a client.

    round
        The round, from 0.
    params
        The parameters as one vector.
    buffers
        The floating-point buffers as one vector.
    lr
        The clients' learning rate in this round.
    extras
        Tensors of server pieces for client pieces, by key of the piece and name.
    """

    round: int
    params: Tensor
    buffers: Tensor
    lr: float
    extras: Extras = field(default_factory=dict)
    instruction: Instruction = Train()
    """What the client shall do."""
    commit: bool = True
    """False for a probe: the client does not store any state."""
    repeat: bool = False
    """True if the client still has this model from the last exchange, so it is not sent again.

    Set by the sender.
    """
    preceding: Mapping[int, tuple[int, float]] = field(default_factory=dict)
    """For each client, how many clients come before it in this exchange and the sum of their mean
    batch sizes. Filled only if a piece needs it (`Piece.needs_cohort_order`)."""
    repetition: int = 0
    """How often the client was asked before in this exchange; a chain may reach it again."""

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the tensors that are sent."""
        model = (
            () if self.repeat or not self.instruction.needs_model else (self.params, self.buffers)
        )
        return _nbytes(*model, extras=self.extras)

    @cached_property
    def models(self) -> int:
        """Number of model-sized vectors that are sent; smaller tensors are not counted."""
        model = 0 if self.repeat or not self.instruction.needs_model else 1
        return model + sum(t.numel() == self.params.numel() for t in _tensors(self.extras))

    def path(self, client: int) -> tuple[int, ...]:
        """The random path of a client in this exchange, see `request_seed`."""
        return request_seed(self.round, client, self.repetition)

    def after(self, last: Broadcast | None) -> Broadcast:
        """The same message to a client whose last message was ``last``.

        The model is marked as `repeat` if the client still has it.
        """
        had = last if last is not None and last.instruction.needs_model else None
        has = had is not None and had.params is self.params and had.buffers is self.buffers
        return self if has == self.repeat else replace(self, repeat=has)

    def enclose(self, key: str, **tensors: Tensor) -> Broadcast:
        """The same message with ``tensors`` for the piece ``key``."""
        return replace(self, extras={**self.extras, key: tensors})


class _Payload:
    """Tensors of one reply or of a batch of replies."""

    delta: Tensor
    buffers: Tensor
    extras: Extras

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors that are sent."""
        return _nbytes(self.delta, self.buffers, extras=self.extras)

    @property
    def models(self) -> int:
        """Number of model-sized vectors, one per row of a batch; smaller tensors do not count."""
        if not self.delta.numel():
            return 0
        size, rows = self.delta.shape[-1], self.delta.numel() // self.delta.shape[-1]
        return rows * (1 + sum(t.numel() == rows * size for t in _tensors(self.extras)))

    @cached_property
    def square(self) -> Tensor:
        """The squared length of ``delta``, over all rows."""
        flat = self.delta.reshape(-1)
        return torch.dot(flat, flat).double()

    @cached_property
    def finite(self) -> bool:
        """True if all entries are finite."""
        # The squared length is finite only if all entries of ``delta`` are. It may also overflow.
        rest = self.buffers, *_tensors(self.extras)
        return (math.isfinite(self.square) or _finite(self.delta)) and all(map(_finite, rest))


@dataclass(frozen=True)
class Reply(_Payload):
    """A message from a client to the server.

    client
        Number of the client.
    buffers
        The floating-point buffers after training, as one vector.
    extras
        Tensors that client pieces send, by key of the piece and name.
    metrics
        The training loss (``loss``) and what client pieces measured.
    """

    client: int
    delta: Tensor
    """Sent minus returned parameters, so it points uphill like a gradient."""
    buffers: Tensor
    examples: int
    """Number of examples that the client holds."""
    samples: int
    """Number of examples processed in this request, epochs included."""
    extras: Extras
    metrics: Mapping[str, float]
    steps: int = 1
    """Number of local steps."""
    client_params: Model | None = None
    """The client's model after local training, if recorded (`ClientJob.returns_models`).

    Exists only in the simulation and is not sent.
    """
    request: str = ""
    """The id of the request that it answers."""
    packed: Packed | None = None
    """The compressed form of ``delta`` in which it is sent, if it is compressed."""

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors that are sent."""
        if self.packed is None:
            return super().nbytes
        return self.packed.nbytes + _nbytes(self.buffers, extras=self.extras)

    @property
    def weight(self) -> float:
        """The weight under "sized" weighting: the examples, or another count such as labelled
        pixels."""
        return self.metrics.get(WEIGHT, self.examples)


@dataclass(frozen=True)
class ReplyBatch(_Payload):
    """Replies of clients with equally many examples: each tensor has one row per client.

    clients
        Numbers of the clients.
    delta, buffers, extras, metrics
        Those of `Reply`, in the order of the clients.
    """

    clients: Sequence[int]
    delta: Tensor
    buffers: Tensor
    examples: int
    """Number of examples that each client holds."""
    samples: int
    """Number of examples that each client processed, epochs included."""
    extras: Extras
    metrics: Mapping[str, Tensor]
    steps: int = 1
    """Number of local steps of each client."""
    client_params: Model | None = None
    """The clients' models, see `Reply.client_params`."""
    requests: Sequence[str] = ()
    """The ids of the requests that they answer."""

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def mean(self) -> Reply:
        """The mean reply. All clients have the same size, so weighted and uniform means agree."""
        return Reply(
            -1,
            self.delta.mean(0),
            self.buffers.mean(0),
            self.examples,
            self.samples,
            {
                key: {name: t.mean(0) for name, t in named.items()}
                for key, named in self.extras.items()
            },
            {name: float(values.mean()) for name, values in self.metrics.items()},
            self.steps,
        )

    def __iter__(self) -> Iterator[Reply]:
        """Iterate over single replies."""
        metrics = {name: values.tolist() for name, values in self.metrics.items()}
        requests = self.requests or [""] * len(self)
        for i, (client, extras) in enumerate(
            zip(self.clients, unstack(self.extras, len(self)), strict=True)
        ):
            row_metrics = {name: values[i] for name, values in metrics.items()}
            client_params = (
                None
                if self.client_params is None
                else Model(self.client_params.params[i], self.client_params.buffers[i])
            )
            yield Reply(
                client,
                self.delta[i],
                self.buffers[i],
                self.examples,
                self.samples,
                extras,
                row_metrics,
                self.steps,
                client_params,
                requests[i],
            )


def single_replies(reply: Reply | ReplyBatch) -> Iterable[Reply]:
    """Return the replies of single clients: ``reply`` itself, or those in a batch."""
    return reply if isinstance(reply, ReplyBatch) else (reply,)


def unstack(stacked: Extras, count: int) -> Iterator[dict[str, dict[str, Tensor]]]:
    """Split stacked tensors into ``count`` rows with the same names.

    Rows are copied, so that keeping one row does not keep the memory of all.
    """
    for i in range(count):
        yield {
            key: {name: t[i].clone() for name, t in named.items()} for key, named in stacked.items()
        }


def _finite(t: Tensor) -> bool:
    # The sum is finite only if all entries are. It may also overflow, so a sum that is not finite
    # is checked entry by entry.
    return not t.numel() or math.isfinite(t.sum()) or bool(torch.isfinite(t).all())


@dataclass(frozen=True)
class Replies:
    """The aggregated replies of one exchange.

    buffers
        The mean of the returned buffers.
    count
        Number of clients that replied.
    population
        Number of clients of the run.
    means
        Means of the extra tensors, by key of the piece, name and weighting.
    """

    broadcast: Broadcast
    """The message that was sent; a server piece may have moved its parameters."""
    delta: Tensor
    """The mean delta by the method's weighting, "sized" or "uniform"."""
    buffers: Tensor
    uniform: Tensor
    """The mean delta in which all clients have the same weight."""
    count: int
    population: int
    loss: float
    """The mean training loss, weighted like ``delta``. Clients of weight 0 do not count."""
    steps: float
    """The mean number of local steps over clients."""
    means: Mapping[tuple[str, str, str], Tensor]
    batch: float = 0.0
    """The mean batch size over clients."""
    weighting: str = "sized"
    """The weighting of ``delta``."""
    weight: float = 0.0
    """The total weight of the replies, in examples or in clients."""
    square: float = 0.0
    """The mean squared length of the clients' deltas, weighted like ``delta``."""

    def mean(self, key: str, name: str, weighting: str = "uniform") -> Tensor:
        """The mean of an extra tensor, weighting "uniform" or "sized"."""
        return self.means[key, name, weighting]

    def with_delta(self, delta: Tensor) -> Replies:
        """The same replies with another pseudo-gradient; ``uniform`` stays as it is.

        AdaBest, FedACG, FedCM and FedDyn step by ``uniform``. Use `transformed` for a change that
        must reach every method.
        """
        return replace(self, delta=delta)

    def transformed(self, change: Callable[[Tensor], Tensor]) -> Replies:
        """The same replies with both means changed: ``delta`` and ``uniform``."""
        return replace(self, delta=change(self.delta), uniform=change(self.uniform))
