"""Local training of one client: the only code that trains.

`run_client` is a pure function of picklable arguments. It gives the same numbers in this process,
in a worker process, or on another machine of the same kind. It can be repeated to find an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from fedflat.client.compression import PACKED
from fedflat.client.evaluate import headline, own_scores
from fedflat.client.full_gradient import full_gradient
from fedflat.client.learner import Learner, Oracle, Terms
from fedflat.client.local import LocalTraining
from fedflat.client.piece import BatchOracle, ClientContext, ClientState, Piece, Term
from fedflat.core.flat import GradFn, Model
from fedflat.core.messages import WEIGHT, Broadcast, Extras, Reply
from fedflat.core.seeds import derive, kept_random_state, seed_modules, torch_generator
from fedflat.data.examples import Batch, ClientData, Tensors
from fedflat.tasks.task import Count, Supply

Spy = Callable[[str, Tensor], None]
"""Called with each vector as it is computed, and with the name of the piece that computed it."""
METRICS = "metrics"
"""Key in `ClientContext.scratch` under which a piece stores numbers for the reply's metrics. They
are neither averaged nor counted as traffic."""


@dataclass(frozen=True)
class ClientJob:
    """All that a client needs besides the broadcast, its state and its data."""

    learner: Learner
    pieces: tuple[Piece, ...]
    local: LocalTraining
    seed: int
    mean_examples: float = 0.0
    """Mean number of examples per client; set if a piece has `needs_mean_examples`."""
    returns_models: bool = False
    """True if each reply also carries the client's own model, for measurements."""
    experiment: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the run as text, sent to clients on other machines."""
    shared: Extras = field(default_factory=dict)
    """Tensors sent to every client once, before the first round: the results of
    `Piece.shared_with_clients`, by piece key."""

    @property
    def private_size(self) -> int:
        """Number of parameters that stay with the clients."""
        return sum(piece.private_size(self.learner.flat.layout) for piece in self.pieces)

    def client_data(self, client: int, data: ClientData) -> ClientData:
        """The data that a client trains on. An `AttackedJob` changes those of its attackers."""
        return data

    def cohort_data(
        self, clients: Sequence[int], data: Sequence[ClientData]
    ) -> Sequence[ClientData]:
        """The `client_data` of several clients."""
        return data


@dataclass(frozen=True)
class Request:
    """What one client is to do: a broadcast, and the client's state or the id of it."""

    client: int
    broadcast: Broadcast
    state: ClientState
    """What the client's pieces keep between requests; empty if the client keeps it itself."""
    id: str = ""
    """Unique in the run; the reply names it."""
    state_id: str | None = None
    """Where clients keep their states: the id of the request that made the client's state, None if
    it has none yet."""
    keep: tuple[str, ...] = ()
    """Where clients keep their states: the ids of all states that the client must keep, because a
    checkpoint names them."""


Outcome = tuple[Reply, ClientState]
"""A reply, and the client's new state."""


def run_client(
    job: ClientJob, request: Request, data: ClientData, spy: Spy | None = None
) -> Outcome:
    """Carry out the broadcast's instruction on one client."""
    instruction = request.broadcast.instruction
    data = job.client_data(request.client, data)
    outcome: Outcome = instruction.run(ClientWork(instruction.job(job), request, data, spy))
    return outcome


@dataclass(frozen=True)
class ClientWork:
    """A client as an `Instruction` sees it: its job, request and data, and what it can do."""

    job: ClientJob
    request: Request
    data: ClientData
    spy: Spy | None = None

    def local_train(self) -> Outcome:
        """Train from the parameters that were sent."""
        return _local_train(self.job, self.request, self.data, self.spy)

    def full_gradient(self) -> Outcome:
        """Compute the gradient over all the client's data at the parameters that were sent."""
        job, client, broadcast = self.job, self.request.client, self.request.broadcast
        examples = len(self.data)
        job.learner.flat.buffers = broadcast.buffers
        with kept_random_state():
            seed_modules(derive(job.seed, "module", *broadcast.path(client)), job.learner.device)
            gradient = _full_gradient(job, self.request, self.data, broadcast.params)
        metrics = {"loss": float("nan")}
        reply = Reply(
            client,
            gradient,
            broadcast.buffers,
            examples,
            examples,
            {},
            metrics,
            request=self.request.id,
        )
        return reply, self.request.state

    def scores(self, data: ClientData) -> dict[str, float]:
        """Evaluate the model that was sent on some examples.

        Private parameters are the client's own.
        """
        sent = Model(self.request.broadcast.params, self.request.broadcast.buffers)
        return own_scores(self.job.learner, self.job.pieces, sent, self.request.state, data)

    def answer(
        self,
        key: str,
        found: dict[str, Tensor],
        *,
        examples: int,
        samples: int = 0,
        loss: float = float("nan"),
    ) -> Outcome:
        """Build a reply with a few tensors and no model. The client's state does not change."""
        empty = self.request.broadcast.params.new_empty(0)
        reply = Reply(
            self.request.client,
            empty,
            empty,
            examples,
            samples,
            {key: found},
            {"loss": loss},
            request=self.request.id,
        )
        return reply, self.request.state


def _local_train(job: ClientJob, request: Request, data: ClientData, spy: Spy | None) -> Outcome:
    broadcast, client, flat = request.broadcast, request.client, job.learner.flat
    flat.train()
    contexts = [open_context(job, request, data, piece) for piece in job.pieces]
    stack = list(zip(job.pieces, contexts, strict=True))
    for piece, v in stack:
        data = piece.data(v, data)
    with kept_random_state():
        # Dropout and other random layers draw from PyTorch's global generator.
        seed_modules(derive(job.seed, "module", *broadcast.path(client)), job.learner.device)
        try:
            result = local_train(
                stack,
                job.learner,
                broadcast.params,
                broadcast.buffers,
                broadcast.lr,
                _batches(job, request, data),
                spy,
            )
        except Exception as error:
            error.add_note(
                f"(in round {broadcast.round + 1}, client {client}{error_place(error, contexts)})"
            )
            raise
    delta = broadcast.params - result.returned
    for piece, v in stack:
        delta = piece.upload(v, delta)
    measurements = {
        "loss": result.loss,
        **measured(stack),
        **(result.weights(len(data)) if job.learner.task.weighs else {}),
    }
    metrics = {name: float(value) for name, value in measurements.items()}
    if broadcast.instruction.tests and data.own_test is not None:
        flat.load(result.own.params)
        metrics["own_accuracy"] = headline(job.learner, data.own_test)
    reply = Reply(
        client=client,
        delta=delta,
        buffers=result.buffers,
        examples=len(data),
        samples=result.samples,
        extras={piece.key: v.outbox for piece, v in stack if v.outbox},
        metrics=metrics,
        steps=result.steps,
        client_params=result.own if job.returns_models else None,
        request=request.id,
        packed=next((v.scratch[PACKED] for _, v in stack if PACKED in v.scratch), None),
    )
    return reply, {piece.key: v.state for piece, v in stack if v.state}


def error_place(error: Exception, contexts: list[ClientContext]) -> str:
    """Return the step, and the innermost piece on the call stack, where an error occurred."""
    step = f", step {contexts[0].steps}" if contexts else ""
    piece, trace = None, error.__traceback__
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        piece = owner if isinstance(owner, Piece) else piece
        trace = trace.tb_next
    return step + (f", piece {piece!r}" if piece is not None else "")


def measured(stack: list[tuple[Piece, ClientContext]]) -> dict[str, Tensor]:
    """Return the metrics that pieces measured. In a stack they have one number per client."""
    return {name: value for _, v in stack for name, value in v.scratch.get(METRICS, {}).items()}


class GradientBackend(Protocol):
    """Computes gradients: the learner for one client, or its counterpart for a stack of clients."""

    buffers: Tensor
    """The running statistics of the model."""
    at: Tensor | None
    """The current parameters when the next batch is built."""

    @property
    def frozen(self) -> Tensor | None:
        """Mask of the parameters that keep their values; None if there are none."""
        ...

    def oracle(self, batch: Batch, terms: Terms) -> BatchOracle:
        """Return the gradient function of one batch."""
        ...


@dataclass(frozen=True)
class LocalResult:
    """The result of local training."""

    own: Model
    """The client's own model after the last step."""
    returned: Tensor
    """The parameters to send back, after all pieces' ``end``."""
    buffers: Tensor
    """The running statistics to send back, after all pieces' ``end_buffers``."""
    loss: Tensor
    """Mean loss over the steps."""
    steps: int
    samples: int
    """Number of examples processed, all epochs counted."""
    counted: Count
    """Number of items that the losses are means of."""

    def weights(self, examples: int) -> dict[str, Tensor]:
        """Return the client's weight as a metric if the items counted decide it, else nothing."""
        if not isinstance(self.counted, Tensor):
            return {}
        return {WEIGHT: self.counted.double() * (examples / self.samples)}


def local_train(
    stack: list[tuple[Piece, ClientContext]],
    backend: GradientBackend,
    w: Tensor,
    buffers: Tensor,
    lr: float,
    batches: Iterable[Batch],
    spy: Spy | None = None,
) -> LocalResult:
    """Train from ``w`` on all batches: ``w <- w - lr g`` with the gradient ``g`` of the pieces.

    The vectors may have a leading axis with one row per client of a stack.
    """
    losses: list[Tensor] = []
    samples = 0
    counted: Count = 0
    backend.buffers = buffers
    received = w
    for piece, v in stack:
        w = piece.received(v, w)
    for _, v in stack:
        v.sent = w
    moved = None if w is received else w - received
    for piece, v in stack:
        w = piece.begin(v, w)
    for piece, v in stack:
        buffers = piece.begin_buffers(v, buffers)
    backend.buffers = buffers
    for _, v in stack:
        v.start = w
    backend.at = w
    for batch in batches:
        for piece, v in stack:
            batch = piece.batch(v, batch)
        oracle = backend.oracle(batch, [(p, v) for p, v in stack if isinstance(p, Term)])
        rate = lr * math.prod([piece.lr_factor(v) for piece, v in stack])
        step = _compose(oracle, stack, spy)(w)
        if backend.frozen is not None:  # weight decay would move them
            step = step.masked_fill(backend.frozen, 0.0)
        w = torch.sub(w, step, alpha=rate)
        assert oracle.loss is not None, "no piece asked for a gradient"
        losses.append(oracle.loss)
        counted = counted + oracle.count
        samples += batch.first.shape[w.dim() - 1]
        backend.at = w
        for _, v in stack:
            v.steps, v.lr_sum = v.steps + 1, v.lr_sum + rate
    for _, v in stack:
        v.end = w
    own = Model(w, backend.buffers)
    buffers = own.buffers
    for piece, v in reversed(stack):
        w, buffers = piece.end(v, w), piece.end_buffers(v, buffers)
    returned = w if moved is None else w - moved
    loss = losses[0] if len(losses) == 1 else torch.stack(losses).mean(dim=0)
    return LocalResult(own, returned, buffers, loss, len(losses), samples, counted)


def open_context(job: ClientJob, request: Request, data: ClientData, piece: Piece) -> ClientContext:
    """Return what a piece sees of the client before training."""
    broadcast = request.broadcast
    epoch_size = job.learner.task.epoch_size(data)
    return ClientContext(
        key=piece.key,
        seed=job.seed,
        round=broadcast.round,
        client=request.client,
        sent=broadcast.params,
        start=broadcast.params,
        end=broadcast.params,
        lr=broadcast.lr,
        planned_steps=job.local.planned_steps(broadcast.round, request.client, epoch_size),
        epochs=job.local.epochs_of(broadcast.round, request.client, epoch_size),
        layout=job.learner.flat.layout,
        inbox=broadcast.extras.get(piece.key, {}),
        state=dict(request.state.get(piece.key, {})),
        examples=len(data),
        batch_size=job.local.batch_size,
        oracle=partial(_plain_oracle, job, data),
        full_gradient=partial(_full_gradient, job, request, data),
        inputs=lambda indices: data.batch(indices, job.learner.dtype).inputs,
        output_of=job.learner.output_of,
        mean_examples=job.mean_examples,
        preceding=preceding(broadcast, request.client),
        shared=job.shared.get(piece.key, {}),
        repetition=broadcast.repetition,
        pieces=job.pieces,
        sent_buffers=broadcast.buffers,
        class_counts=partial(data.counts_on_device, job.learner.outputs),
        gradient_of=job.learner.gradient_of,
        value_of=job.learner.value_of,
    )


def preceding(broadcast: Broadcast, *clients: int) -> Tensor | None:
    """Return the broadcast's `preceding` of a client; of several clients, one row each."""
    if not broadcast.preceding:
        return None
    rows = torch.tensor(
        [broadcast.preceding[client] for client in clients],
        dtype=torch.float64,
        device=broadcast.params.device,
    )
    return rows[0] if len(clients) == 1 else rows


def _full_gradient(job: ClientJob, request: Request, data: ClientData, w: Tensor) -> Tensor:
    for piece in job.pieces:
        if type(piece).data is not Piece.data:
            data = piece.data(open_context(job, request, data, piece), data)
    terms = [
        (piece, open_context(job, request, data, piece))
        for piece in job.pieces
        if isinstance(piece, Term)
    ]
    return full_gradient(job.learner, data, w, terms)


def _plain_oracle(job: ClientJob, data: ClientData, indices: Tensor) -> Oracle:
    """The gradient function of a batch without any piece. Running statistics do not change."""
    return Oracle(job.learner, data.batch(indices, job.learner.dtype), [], still=True)


def _batches(job: ClientJob, request: Request, data: ClientData) -> Iterator[Batch]:
    return job.learner.task.batches(task_batches(job, request, data, job.learner.output))


def task_batches(
    job: ClientJob, request: Request, data: ClientData, output: Callable[[Tensors], Any]
) -> Supply:
    """Return what the task builds a client's batches from."""
    broadcast, client = request.broadcast, request.client
    size = job.learner.task.epoch_size(data)
    indices = job.local.batches(job.seed, broadcast.round, client, size, broadcast.repetition)
    augments = data.examples.augments or data.change is not None or job.learner.task.makes_batches
    augment = torch_generator(job.seed, "augment", *broadcast.path(client)) if augments else None
    draws = partial(torch_generator, job.seed, "task", *broadcast.path(client))
    return Supply(data, indices, job.learner.dtype, augment, draws, output)


def _compose(oracle: GradFn, stack: list[tuple[Piece, ClientContext]], spy: Spy | None) -> GradFn:
    grad = oracle if spy is None else partial(_observed, "the batch gradient", oracle, spy)
    for piece, v in stack:
        grad = partial(piece.gradient, v, grad)
        if spy is not None:
            grad = partial(_observed, repr(piece), grad, spy)
    return grad


def _observed(name: str, grad: GradFn, spy: Spy, w: Tensor) -> Tensor:
    g = grad(w)
    spy(name, g)
    return g
