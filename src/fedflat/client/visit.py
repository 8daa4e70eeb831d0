"""One client's work in one exchange: the only code that trains.

A visit is a pure function of picklable things, so it gives the same numbers in this process, in a worker,
or on another machine of the same kind; and it can be repeated, to find what went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType

import torch
from torch import Tensor

from fedflat.client.drift import Only
from fedflat.client.judge import accuracy
from fedflat.client.local import Local
from fedflat.client.piece import Memory, Piece, Term, Visit
from fedflat.client.task import Oracle, Task
from fedflat.data.examples import Batch, ClientData
from fedflat.flat import GradFn
from fedflat.mail import Mail, Reply
from fedflat.seeds import derive, torch_generator

Watch = Callable[[str, Tensor], None]
"""Told each vector as it is made, with the name of its maker."""


@dataclass(frozen=True)
class ClientJob:
    """All a client needs besides its mail, its memory and its data."""

    task: Task
    pieces: tuple[Piece, ...]
    local: Local
    seed: int
    personal: bool = False
    """Whether each visit tells the accuracy of the client's own model on its held-out part."""


@dataclass(frozen=True)
class Letter:
    """A mail, to whom, and what that client remembers."""

    client: int
    mail: Mail
    memory: Memory


def visit(job: ClientJob, letter: Letter, data: ClientData, watch: Watch | None = None) -> tuple[Reply, Memory]:
    """Do what the mail asks; the reply, and what the client remembers from now on."""
    if letter.mail.task == "gradient":
        return _survey(job, letter, data), letter.memory
    if letter.mail.task == "tune":  # plain steps of the last layer, nothing else
        job = replace(job, pieces=(Only("classifier"),))
    return _walk(job, letter, data, watch)


def _survey(job: ClientJob, letter: Letter, data: ClientData) -> Reply:
    """The gradient over all the client's data, in place of a walk."""
    mail = letter.mail
    job.task.flat.buffers = mail.buffers
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(job.seed, "module", mail.round, letter.client))
        gradient = _whole(job, letter, data, mail.params)
    return Reply(letter.client, gradient, mail.buffers, len(data), len(data), {}, {"loss": float("nan")})


def _walk(job: ClientJob, letter: Letter, data: ClientData, watch: Watch | None) -> tuple[Reply, Memory]:
    """Walk from what was sent."""
    mail, client, flat = letter.mail, letter.client, job.task.flat
    flat.module.train()
    flat.buffers = mail.buffers
    visits = [_open(job, letter, data, piece) for piece in job.pieces]
    stack = list(zip(job.pieces, visits, strict=True))
    losses: list[Tensor] = []
    samples = 0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(job.seed, "module", mail.round, client))  # dropout, and whatever else draws
        try:
            w = mail.params
            for piece, v in stack:
                w = piece.begin(v, w)
            buffers = mail.buffers
            for piece, v in stack:
                buffers = piece.begin_buffers(v, buffers)
            flat.buffers = buffers
            for v in visits:
                v.start = w
            for batch in _batches(job, letter, data):
                for piece, v in stack:
                    batch = piece.batch(v, batch)
                oracle = job.task.oracle(batch, [(p, v) for p, v in stack if isinstance(p, Term)])
                w = torch.sub(w, _compose(oracle, stack, watch)(w), alpha=mail.lr)
                assert oracle.loss is not None, "no piece asked for a gradient"
                losses.append(oracle.loss)
                samples += len(batch)
                for v in visits:
                    v.steps, v.walked = v.steps + 1, v.walked + mail.lr
            for v in visits:
                v.stop = w
            buffers = flat.buffers
            for piece, v in reversed(stack):
                w, buffers = piece.end(v, w), piece.end_buffers(v, buffers)
        except Exception as error:
            error.add_note(f"(in round {mail.round}, client {client}{_guilty(error.__traceback__, visits)})")
            raise
    metrics = {"loss": float(torch.stack(losses).mean())}
    if job.personal and data.own_test is not None:
        flat.load(visits[0].stop if visits else w)
        metrics["own_accuracy"] = accuracy(job.task, data.own_test)
    reply = Reply(
        client=client,
        delta=mail.params - w,
        buffers=buffers,
        examples=len(data),
        samples=samples,
        extras={piece.key: v.outbox for piece, v in stack if v.outbox},
        metrics=metrics,
        steps=len(losses),
    )
    return reply, {piece.key: v.memory for piece, v in stack if v.memory}


def _open(job: ClientJob, letter: Letter, data: ClientData, piece: Piece) -> Visit:
    mail = letter.mail
    planned = job.local.planned(mail.round, letter.client, len(data))
    return Visit(
        key=piece.key,
        seed=job.seed,
        round=mail.round,
        client=letter.client,
        sent=mail.params,
        start=mail.params,
        stop=mail.params,
        lr=mail.lr,
        planned=planned,
        epochs=job.local.passes(mail.round, letter.client, len(data)),
        layout=job.task.flat.layout,
        inbox=mail.extras.get(piece.key, {}),
        memory=dict(letter.memory.get(piece.key, {})),
        examples=len(data),
        batch_size=job.local.batch_size,
        oracle=partial(_bare, job, data),
        full_gradient=partial(_whole, job, letter, data),
    )


def _whole(job: ClientJob, letter: Letter, data: ClientData, w: Tensor) -> Tensor:
    """The gradient over all the client's data, of the loss with its terms."""
    terms = [(piece, _open(job, letter, data, piece)) for piece in job.pieces if isinstance(piece, Term)]
    return full_gradient(job, data, w, terms)


def _bare(job: ClientJob, data: ClientData, places: Tensor) -> Oracle:
    """The oracle of a batch as it is, without any piece; statistics do not move."""
    return Oracle(job.task, data.batch(places, job.task.dtype), [], still=True)


def _batches(job: ClientJob, letter: Letter, data: ClientData) -> Iterator[Batch]:
    t, client = letter.mail.round, letter.client
    rng = torch_generator(job.seed, "augment", t, client)
    for places in job.local.batches(job.seed, t, client, len(data)):
        yield data.batch(places, job.task.dtype, rng)


def _compose(oracle: GradFn, stack: list[tuple[Piece, Visit]], watch: Watch | None) -> GradFn:
    grad = oracle if watch is None else partial(_watched, "the batch gradient", oracle, watch)
    for piece, v in stack:
        grad = partial(piece.gradient, v, grad)
        if watch is not None:
            grad = partial(_watched, repr(piece), grad, watch)
    return grad


def _watched(name: str, grad: GradFn, watch: Watch, w: Tensor) -> Tensor:
    g = grad(w)
    watch(name, g)
    return g


def full_gradient(job: ClientJob, data: ClientData, w: Tensor, terms: Sequence[tuple[Term, Visit]] = ()) -> Tensor:
    """The gradient over all the client's examples, as they are, of the loss and ``terms`` of it."""
    total = torch.zeros_like(w)
    job.task.flat.module.train()
    for places in torch.arange(len(data)).split(256):
        oracle = Oracle(job.task, data.batch(places, job.task.dtype), list(terms), still=True)
        total.add_(oracle(w), alpha=len(places) / len(data))
    return total


def _guilty(trace: TracebackType | None, visits: list[Visit]) -> str:
    """Where an exception was: the step, and the innermost piece on the stack."""
    found = f", step {visits[0].steps}" if visits else ""
    piece = None
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        piece = owner if isinstance(owner, Piece) else piece
        trace = trace.tb_next
    return found + (f", piece {piece!r}" if piece is not None else "")


def diagnose(job: ClientJob, letter: Letter, data: ClientData) -> str:
    """Repeat a visit whose reply was not finite, and say where the first bad number came from."""
    seen: list[str] = []

    def watch(name: str, g: Tensor) -> None:
        if not seen and not bool(torch.isfinite(g).all()):
            seen.append(name)

    if not bool(torch.isfinite(letter.mail.params).all()):
        return "the model it was sent was already not finite"
    visit(job, letter, data, watch)
    return f"the first bad number came out of {seen[0]}" if seen else "its steps were finite, but their sum is not"
