"""One client's work in one exchange: the only code that trains.

A visit is a pure function of picklable things, so it gives the same numbers in this process, in a worker,
or on another machine of the same kind; and it can be repeated, to find what went wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from fedflat.client.attacker import Attacker, used
from fedflat.client.domains import own_scores
from fedflat.client.judge import headline
from fedflat.client.learner import Learner, Oracle, Terms
from fedflat.client.local import Local
from fedflat.client.piece import BatchOracle, Memory, Piece, Term, Visit
from fedflat.client.survey import full_gradient
from fedflat.data.batch import Batch, Tensors
from fedflat.data.examples import ClientData
from fedflat.engine.flat import GradFn, Model
from fedflat.engine.mail import WEIGHT, Extras, Mail, Reply
from fedflat.engine.seeds import derive, seed_modules, torch_generator
from fedflat.tasks.task import Count, Supply

Spy = Callable[[str, Tensor], None]
"""Told each vector as it is made, with the name of its maker."""
METRICS = "metrics"
"""Where in its memo a piece leaves numbers for the reply's metrics, which nobody averages and nobody counts."""


@dataclass(frozen=True)
class ClientJob:
    """All a client needs besides its mail, its memory and its data."""

    learner: Learner
    pieces: tuple[Piece, ...]
    local: Local
    seed: int
    mean_examples: float = 0.0
    """How many examples a client holds on average, where a piece must know."""
    shows: bool = False
    """Whether each reply brings the client's own model along, for somebody to look at."""
    said: Mapping[str, Any] = field(default_factory=dict)
    """The texts of the run that it is part of, for clients elsewhere to be told in."""
    attackers: Mapping[int, Attacker] = field(default_factory=dict)
    """Clients that do not train on what they hold."""
    told: Extras = field(default_factory=dict)
    """What every client is told once, before round 0: what `Piece.told` chooses of others' descriptions, by piece."""


@dataclass(frozen=True)
class Letter:
    """A mail, to whom, and what that client remembers."""

    client: int
    mail: Mail
    memory: Memory
    id: str = ""
    """Which letter of the run it is; the reply names it."""


Done = tuple[Reply, Memory]
"""A reply, and what the client remembers from now on."""


def visit(job: ClientJob, letter: Letter, data: ClientData, spy: Spy | None = None) -> Done:
    """Do what the mail asks."""
    job, data = letter.mail.ask.job(job), used(job.attackers, letter.client, data)
    done: Done = letter.mail.ask.do(OneClient(job, letter, data, spy))
    return done


@dataclass(frozen=True)
class OneClient:
    """A client as an ask sees it: what it has, and what it can do."""

    job: ClientJob
    letter: Letter
    data: ClientData
    spy: Spy | None = None

    def walk(self) -> Done:
        """Walk from what was sent."""
        return _walk(self.job, self.letter, self.data, self.spy)

    def survey(self) -> Done:
        """The gradient over all the client's data where the model stands."""
        mail, job, client, examples = self.letter.mail, self.job, self.letter.client, len(self.data)
        job.learner.flat.buffers = mail.buffers
        with torch.random.fork_rng(devices=[]):
            seed_modules(derive(job.seed, "module", *mail.path(client)), job.learner.device)
            gradient = _whole(job, self.letter, self.data, mail.params)
        metrics = {"loss": float("nan")}
        reply = Reply(client, gradient, mail.buffers, examples, examples, {}, metrics, letter=self.letter.id)
        return reply, self.letter.memory

    def scores(self, data: ClientData) -> dict[str, float]:
        """How good the model that was sent is on some examples, with what the client itself keeps of it."""
        sent = Model(self.letter.mail.params, self.letter.mail.buffers)
        return own_scores(self.job.learner, self.job.pieces, sent, self.letter.memory, data)

    def answer(
        self, key: str, found: dict[str, Tensor], *, examples: int, samples: int = 0, loss: float = float("nan")
    ) -> Done:
        """A reply with a few tensors and no model; nothing is remembered of it."""
        none, metrics = self.letter.mail.params.new_empty(0), {"loss": loss}
        reply = Reply(self.letter.client, none, none, examples, samples, {key: found}, metrics, letter=self.letter.id)
        return reply, self.letter.memory


def _walk(job: ClientJob, letter: Letter, data: ClientData, spy: Spy | None) -> Done:
    mail, client, flat = letter.mail, letter.client, job.learner.flat
    flat.train()
    visits = [open_visit(job, letter, data, piece) for piece in job.pieces]
    stack = list(zip(job.pieces, visits, strict=True))
    for piece, v in stack:
        data = piece.data(v, data)
    with torch.random.fork_rng(devices=[]):
        seed_modules(derive(job.seed, "module", *mail.path(client)), job.learner.device)  # dropout, whatever draws
        try:
            walked = walk(stack, job.learner, mail.params, mail.buffers, mail.lr, _batches(job, letter, data), spy)
        except Exception as error:
            error.add_note(f"(in round {mail.round}, client {client}{error_place(error, visits)})")
            raise
    told = {"loss": walked.loss, **measured(stack), **(walked.weights(len(data)) if job.learner.task.weighs else {})}
    metrics = {name: float(value) for name, value in told.items()}
    if mail.ask.tests and data.own_test is not None:
        flat.load(walked.own.params)
        metrics["own_accuracy"] = headline(job.learner, data.own_test)
    reply = Reply(
        client=client, delta=mail.params - walked.returned, buffers=walked.buffers, examples=len(data),
        samples=walked.samples, extras={piece.key: v.outbox for piece, v in stack if v.outbox}, metrics=metrics,
        steps=walked.steps, own=walked.own if job.shows else None, letter=letter.id,
    )  # fmt: skip
    return reply, {piece.key: v.memory for piece, v in stack if v.memory}


def error_place(error: Exception, visits: list[Visit]) -> str:
    """Where an exception was raised: the step, and the innermost piece on the stack."""
    found = f", step {visits[0].steps}" if visits else ""
    piece, trace = None, error.__traceback__
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        piece = owner if isinstance(owner, Piece) else piece
        trace = trace.tb_next
    return found + (f", piece {piece!r}" if piece is not None else "")


def measured(stack: list[tuple[Piece, Visit]]) -> dict[str, Tensor]:
    """What pieces have measured in a walk; in a stack, a number for each client."""
    return {name: value for _, v in stack for name, value in v.memo.get(METRICS, {}).items()}


class Bench(Protocol):
    """Where gradients are made: the learner's module for one client, or its like for a stack of them."""

    buffers: Tensor
    at: Tensor | None
    """Where the walk stands when the next batch is made."""

    def oracle(self, batch: Batch, terms: Terms) -> BatchOracle:
        """The gradient oracle on one batch."""
        ...


@dataclass(frozen=True)
class Walked:
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
        """What a client that holds so many examples weighs, if that hangs on what was counted in them."""
        if not isinstance(self.counted, Tensor):
            return {}
        return {WEIGHT: self.counted.double() * (examples / self.samples)}


def walk(
    stack: list[tuple[Piece, Visit]], bench: Bench, w: Tensor, buffers: Tensor, lr: float, batches: Iterable[Batch],
    spy: Spy | None = None,
) -> Walked:  # fmt: skip
    """Walk from ``w``, over all batches; the vectors may have a leading axis, a row for each of many clients."""
    losses: list[Tensor] = []
    samples = 0
    counted: Count = 0
    bench.buffers = buffers
    for piece, v in stack:
        w = piece.begin(v, w)
    for piece, v in stack:
        buffers = piece.begin_buffers(v, buffers)
    bench.buffers = buffers
    for _, v in stack:
        v.start = w
    bench.at = w
    for batch in batches:
        for piece, v in stack:
            batch = piece.batch(v, batch)
        oracle = bench.oracle(batch, [(p, v) for p, v in stack if isinstance(p, Term)])
        rate = lr * math.prod(piece.pace(v) for piece, v in stack)
        w = torch.sub(w, _compose(oracle, stack, spy)(w), alpha=rate)
        assert oracle.loss is not None, "no piece asked for a gradient"
        losses.append(oracle.loss)
        counted = counted + oracle.count
        samples += batch.first.shape[w.dim() - 1]
        bench.at = w
        for _, v in stack:
            v.steps, v.walked = v.steps + 1, v.walked + rate
    for _, v in stack:
        v.stop = w
    own = Model(w, bench.buffers)
    buffers = own.buffers
    for piece, v in reversed(stack):
        w, buffers = piece.end(v, w), piece.end_buffers(v, buffers)
    return Walked(own, w, buffers, torch.stack(losses).mean(dim=0), len(losses), samples, counted)


def open_visit(job: ClientJob, letter: Letter, data: ClientData, piece: Piece) -> Visit:
    """What a piece sees before the walk."""
    mail = letter.mail
    return Visit(
        key=piece.key, seed=job.seed, round=mail.round, client=letter.client,
        sent=mail.params,
        start=mail.params,
        stop=mail.params,
        lr=mail.lr,
        planned=job.local.planned(mail.round, letter.client, len(data)),
        epochs=job.local.passes(mail.round, letter.client, len(data)),
        layout=job.learner.flat.layout,
        inbox=mail.extras.get(piece.key, {}),
        memory=dict(letter.memory.get(piece.key, {})),
        examples=len(data),
        batch_size=job.local.batch_size,
        oracle=partial(_bare, job, data),
        full_gradient=partial(_whole, job, letter, data),
        inputs=lambda places: data.batch(places, job.learner.dtype).inputs,
        elsewhere=job.learner.elsewhere,
        mean_examples=job.mean_examples,
        before=before(mail, letter.client),
        told=job.told.get(piece.key, {}),
        visit=mail.visit,
    )  # fmt: skip


def before(mail: Mail, *clients: int) -> Tensor | None:
    """What the mail says of those asked before a client; of several clients, a row for each."""
    if not mail.before:
        return None
    told = torch.tensor([mail.before[client] for client in clients], dtype=torch.float64, device=mail.params.device)
    return told[0] if len(clients) == 1 else told


def _whole(job: ClientJob, letter: Letter, data: ClientData, w: Tensor) -> Tensor:
    """The gradient over all the client's data, of the loss with its terms."""
    terms = [(piece, open_visit(job, letter, data, piece)) for piece in job.pieces if isinstance(piece, Term)]
    return full_gradient(job.learner, data, w, terms)


def _bare(job: ClientJob, data: ClientData, places: Tensor) -> Oracle:
    """The oracle of a batch as it is, without any piece; statistics do not move."""
    return Oracle(job.learner, data.batch(places, job.learner.dtype), [], still=True)


def _batches(job: ClientJob, letter: Letter, data: ClientData) -> Iterator[Batch]:
    return job.learner.task.batches(supply(job, letter, data, job.learner.output))


def supply(job: ClientJob, letter: Letter, data: ClientData, output: Callable[[Tensors], Any]) -> Supply:
    """What a task makes a client's batches from."""
    mail, client = letter.mail, letter.client
    places = job.local.batches(job.seed, mail.round, client, len(data), mail.visit)
    augment = torch_generator(job.seed, "augment", *mail.path(client))
    draws = partial(torch_generator, job.seed, "task", *mail.path(client))
    return Supply(data, places, job.learner.dtype, augment, draws, output)


def _compose(oracle: GradFn, stack: list[tuple[Piece, Visit]], spy: Spy | None) -> GradFn:
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
