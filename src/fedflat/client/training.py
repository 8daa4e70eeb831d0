"""One client's work in one exchange: the only code that trains.

A visit is a pure function of picklable things, so it gives the same numbers in this process, in a
worker, or on another machine of the same kind; and it can be repeated, to find what went wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from fedflat.client.attacker import Attacker, poisoned
from fedflat.client.domain_scores import own_scores
from fedflat.client.evaluate import headline
from fedflat.client.full_gradient import full_gradient
from fedflat.client.learner import Learner, Oracle, Terms
from fedflat.client.local import LocalTraining
from fedflat.client.piece import BatchOracle, ClientContext, ClientState, Piece, Term
from fedflat.core.flat import GradFn, Model
from fedflat.core.messages import WEIGHT, Broadcast, Extras, Reply
from fedflat.core.seeds import derive, seed_modules, torch_generator
from fedflat.data.batch import Batch, Tensors
from fedflat.data.examples import ClientData
from fedflat.tasks.task import Count, Supply

Spy = Callable[[str, Tensor], None]
"""Told each vector as it is made, with the name of its maker."""
METRICS = "metrics"
"""Where in its memo a piece leaves numbers for the reply's metrics, which nobody averages and
nobody counts."""


@dataclass(frozen=True)
class ClientJob:
    """All a client needs besides its mail, its memory and its data."""

    learner: Learner
    pieces: tuple[Piece, ...]
    local: LocalTraining
    seed: int
    mean_examples: float = 0.0
    """How many examples a client holds on average, where a piece must know."""
    returns_models: bool = False
    """Whether each reply brings the client's own model along, for somebody to look at."""
    experiment: Mapping[str, Any] = field(default_factory=dict)
    """The texts of the run that it is part of, for clients elsewhere to be told in."""
    attackers: Mapping[int, Attacker] = field(default_factory=dict)
    """Clients that do not train on what they hold."""
    shared: Extras = field(default_factory=dict)
    """What every client is told once, before round 0: what `Piece.shared_with_clients` chooses of
    others' descriptions, by piece."""


@dataclass(frozen=True)
class Request:
    """A mail, to whom, and what that client remembers."""

    client: int
    broadcast: Broadcast
    state: ClientState
    id: str = ""
    """Which letter of the run it is; the reply names it."""


Outcome = tuple[Reply, ClientState]
"""A reply, and what the client remembers from now on."""


def run_client(
    job: ClientJob, request: Request, data: ClientData, spy: Spy | None = None
) -> Outcome:
    """Do what the mail asks."""
    job, data = (
        request.broadcast.instruction.job(job),
        poisoned(job.attackers, request.client, data),
    )
    done: Outcome = request.broadcast.instruction.run(ClientWork(job, request, data, spy))
    return done


@dataclass(frozen=True)
class ClientWork:
    """A client as an ask sees it: what it has, and what it can do."""

    job: ClientJob
    request: Request
    data: ClientData
    spy: Spy | None = None

    def local_train(self) -> Outcome:
        """Walk from what was sent."""
        return _local_train(self.job, self.request, self.data, self.spy)

    def full_gradient(self) -> Outcome:
        """The gradient over all the client's data where the model stands."""
        broadcast, job, client, examples = (
            self.request.broadcast,
            self.job,
            self.request.client,
            len(self.data),
        )
        job.learner.flat.buffers = broadcast.buffers
        with torch.random.fork_rng(devices=[]):
            seed_modules(derive(job.seed, "module", *broadcast.path(client)), job.learner.device)
            gradient = _whole(job, self.request, self.data, broadcast.params)
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
        """How good the model that was sent is on some examples, with what the client itself keeps
        of it."""
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
        """A reply with a few tensors and no model; nothing is remembered of it."""
        none, metrics = self.request.broadcast.params.new_empty(0), {"loss": loss}
        reply = Reply(
            self.request.client,
            none,
            none,
            examples,
            samples,
            {key: found},
            metrics,
            request=self.request.id,
        )
        return reply, self.request.state


def _local_train(job: ClientJob, request: Request, data: ClientData, spy: Spy | None) -> Outcome:
    broadcast, client, flat = request.broadcast, request.client, job.learner.flat
    flat.train()
    visits = [open_context(job, request, data, piece) for piece in job.pieces]
    stack = list(zip(job.pieces, visits, strict=True))
    for piece, v in stack:
        data = piece.data(v, data)
    with torch.random.fork_rng(devices=[]):
        seed_modules(
            derive(job.seed, "module", *broadcast.path(client)), job.learner.device
        )  # dropout, whatever draws
        try:
            walked = local_train(
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
                f"(in round {broadcast.round}, client {client}{error_place(error, visits)})"
            )
            raise
    told = {
        "loss": walked.loss,
        **measured(stack),
        **(walked.weights(len(data)) if job.learner.task.weighs else {}),
    }
    metrics = {name: float(value) for name, value in told.items()}
    if broadcast.instruction.tests and data.own_test is not None:
        flat.load(walked.own.params)
        metrics["own_accuracy"] = headline(job.learner, data.own_test)
    reply = Reply(
        client=client,
        delta=broadcast.params - walked.returned,
        buffers=walked.buffers,
        examples=len(data),
        samples=walked.samples,
        extras={piece.key: v.outbox for piece, v in stack if v.outbox},
        metrics=metrics,
        steps=walked.steps,
        client_params=walked.own if job.returns_models else None,
        request=request.id,
    )
    return reply, {piece.key: v.state for piece, v in stack if v.state}


def error_place(error: Exception, visits: list[ClientContext]) -> str:
    """Where an exception was raised: the step, and the innermost piece on the stack."""
    found = f", step {visits[0].steps}" if visits else ""
    piece, trace = None, error.__traceback__
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        piece = owner if isinstance(owner, Piece) else piece
        trace = trace.tb_next
    return found + (f", piece {piece!r}" if piece is not None else "")


def measured(stack: list[tuple[Piece, ClientContext]]) -> dict[str, Tensor]:
    """What pieces have measured in a walk; in a stack, a number for each client."""
    return {name: value for _, v in stack for name, value in v.scratch.get(METRICS, {}).items()}


class GradientBackend(Protocol):
    """Where gradients are made: the learner's module for one client, or its like for a stack of
    them."""

    buffers: Tensor
    at: Tensor | None
    """Where the walk stands when the next batch is made."""

    def oracle(self, batch: Batch, terms: Terms) -> BatchOracle:
        """The gradient oracle on one batch."""
        ...


@dataclass(frozen=True)
class LocalResult:
    """What came of a walk."""

    own: Model
    """Where it ended: the client's own model."""
    returned: Tensor
    """What the pieces made of its parameters to send back."""
    buffers: Tensor
    """What they made of its running statistics to send back."""
    loss: Tensor
    """The mean over the steps."""
    steps: int
    samples: int
    counted: Count
    """How many things the losses were means of."""

    def weights(self, examples: int) -> dict[str, Tensor]:
        """What a client that holds so many examples weighs, if that hangs on what was counted in
        them."""
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
    """Walk from ``w``, over all batches; the vectors may have a leading axis, a row for each of
    many clients."""
    losses: list[Tensor] = []
    samples = 0
    counted: Count = 0
    backend.buffers = buffers
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
        rate = lr * math.prod(piece.lr_factor(v) for piece, v in stack)
        w = torch.sub(w, _compose(oracle, stack, spy)(w), alpha=rate)
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
    return LocalResult(
        own, w, buffers, torch.stack(losses).mean(dim=0), len(losses), samples, counted
    )


def open_context(job: ClientJob, request: Request, data: ClientData, piece: Piece) -> ClientContext:
    """What a piece sees before the walk."""
    broadcast = request.broadcast
    return ClientContext(
        key=piece.key,
        seed=job.seed,
        round=broadcast.round,
        client=request.client,
        sent=broadcast.params,
        start=broadcast.params,
        end=broadcast.params,
        lr=broadcast.lr,
        planned_steps=job.local.planned_steps(broadcast.round, request.client, len(data)),
        epochs=job.local.epochs_of(broadcast.round, request.client, len(data)),
        layout=job.learner.flat.layout,
        inbox=broadcast.extras.get(piece.key, {}),
        state=dict(request.state.get(piece.key, {})),
        examples=len(data),
        batch_size=job.local.batch_size,
        oracle=partial(_bare, job, data),
        full_gradient=partial(_whole, job, request, data),
        inputs=lambda places: data.batch(places, job.learner.dtype).inputs,
        output_of=job.learner.output_of,
        mean_examples=job.mean_examples,
        preceding=preceding(broadcast, request.client),
        shared=job.shared.get(piece.key, {}),
        repetition=broadcast.repetition,
    )


def preceding(broadcast: Broadcast, *clients: int) -> Tensor | None:
    """What the mail says of those asked before a client; of several clients, a row for each."""
    if not broadcast.preceding:
        return None
    told = torch.tensor(
        [broadcast.preceding[client] for client in clients],
        dtype=torch.float64,
        device=broadcast.params.device,
    )
    return told[0] if len(clients) == 1 else told


def _whole(job: ClientJob, request: Request, data: ClientData, w: Tensor) -> Tensor:
    """The gradient over all the client's data, of the loss with its terms."""
    terms = [
        (piece, open_context(job, request, data, piece))
        for piece in job.pieces
        if isinstance(piece, Term)
    ]
    return full_gradient(job.learner, data, w, terms)


def _bare(job: ClientJob, data: ClientData, places: Tensor) -> Oracle:
    """The oracle of a batch as it is, without any piece; statistics do not move."""
    return Oracle(job.learner, data.batch(places, job.learner.dtype), [], still=True)


def _batches(job: ClientJob, request: Request, data: ClientData) -> Iterator[Batch]:
    return job.learner.task.batches(task_batches(job, request, data, job.learner.output))


def task_batches(
    job: ClientJob, request: Request, data: ClientData, output: Callable[[Tensors], Any]
) -> Supply:
    """What a task makes a client's batches from."""
    broadcast, client = request.broadcast, request.client
    places = job.local.batches(job.seed, broadcast.round, client, len(data), broadcast.repetition)
    augment = torch_generator(job.seed, "augment", *broadcast.path(client))
    draws = partial(torch_generator, job.seed, "task", *broadcast.path(client))
    return Supply(data, places, job.learner.dtype, augment, draws, output)


def _compose(oracle: GradFn, stack: list[tuple[Piece, ClientContext]], spy: Spy | None) -> GradFn:
    grad = oracle if spy is None else partial(_spied, "the batch gradient", oracle, spy)
    for piece, v in stack:
        grad = partial(piece.gradient, v, grad)
        if spy is not None:
            grad = partial(_spied, repr(piece), grad, spy)
    return grad


def _spied(name: str, grad: GradFn, spy: Spy, w: Tensor) -> Tensor:
    g = grad(w)
    spy(name, g)
    return g
