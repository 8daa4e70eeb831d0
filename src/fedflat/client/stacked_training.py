"""A visit to many clients at once: the same walk, with a row for each client in every vector.

Only clients that do the same in every step can share a stack: they hold equally many examples, get
the same mail and remember tensors of the same shapes. Others are visited in stacks of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count, repeat
from typing import Any

import torch
from torch import Tensor

from fedflat.client.attacker import poisoned
from fedflat.client.evaluate import headline
from fedflat.client.full_gradient import batched_gradient
from fedflat.client.learner import Terms
from fedflat.client.piece import ClientContext, ClientState, Piece, Term
from fedflat.client.stacked_gradients import StackedGradients, StackOracle
from fedflat.client.training import (
    ClientJob,
    Request,
    error_place,
    local_train,
    measured,
    open_context,
    preceding,
    task_batches,
)
from fedflat.core.flat import Model
from fedflat.core.messages import ReplyBatch
from fedflat.core.seeds import request_seed, torch_generator
from fedflat.data.batch import Batch, Tensors, each, rows, stacked
from fedflat.data.examples import ClientData


@dataclass
class StackContext(ClientContext):
    """Many clients in one exchange, as one piece sees them; ``client`` says nothing."""

    clients: tuple[int, ...] = ()

    @cached_property
    def rngs(self) -> list[torch.Generator]:
        """The piece's own random numbers at each client."""
        paths = (request_seed(self.round, client, self.repetition) for client in self.clients)
        return [torch_generator(self.seed, f"piece/{self.key}", *path) for path in paths]

    def draw(self, make: Callable[[torch.Generator], Tensor]) -> Tensor:
        """What ``make`` makes of each client's random numbers, in rows."""
        return torch.stack([make(rng) for rng in self.rngs])

    def transform(self, batch: Batch, make: Callable[[Batch, torch.Generator], Batch]) -> Batch:
        """What ``make`` makes of each client's batch and random numbers."""
        return stacked([make(one, rng) for one, rng in zip(rows(batch), self.rngs, strict=True)])


def signature(job: ClientJob, request: Request, examples: int) -> Any:
    """Clients with equal signatures can share a stack: the very same mail, equal sizes, shapes and
    batches."""
    if not request.broadcast.instruction.stackable:
        return id(request.broadcast), request.client
    shapes = frozenset(
        (k, n, t.shape, t.dtype) for k, named in request.state.items() for n, t in named.items()
    )
    given = job.local.orders is not None
    lengths = (
        [
            len(b)
            for b in job.local.batches(job.seed, request.broadcast.round, request.client, examples)
        ]
        if given
        else []
    )
    return id(request.broadcast), examples, shapes, *lengths


def run_stack(
    job: ClientJob,
    batched: StackedGradients,
    requests: Sequence[Request],
    data: Sequence[ClientData],
) -> tuple[ReplyBatch, ClientState]:
    """Do what the mail asks of every client; their replies, and what they remember from now on, in
    rows."""
    reply_batch, state = Stack(
        requests[0].broadcast.instruction.job(job), batched, requests, data
    ).run()
    return replace(reply_batch, requests=[request.id for request in requests]), state


class Stack:
    """Clients as an ask sees them together: what they can do at once."""

    def __init__(
        self,
        job: ClientJob,
        batched: StackedGradients,
        requests: Sequence[Request],
        data: Sequence[ClientData],
    ) -> None:
        self.job, self.batched, self.requests = job, batched, requests
        self.data = [
            poisoned(job.attackers, request.client, held)
            for request, held in zip(requests, data, strict=True)
        ]
        self.broadcast, self.count, self.examples = (
            requests[0].broadcast,
            len(requests),
            len(data[0]),
        )
        self.clients = tuple(request.client for request in requests)
        self.sent = self.broadcast.params.expand(self.count, -1)
        self.buffers = self.broadcast.buffers.expand(self.count, -1)

    def run(self) -> tuple[ReplyBatch, ClientState]:
        """Do what the mail asks."""
        visits = self.contexts
        try:
            done: tuple[ReplyBatch, ClientState] = self.broadcast.instruction.run(self)
            return done
        except Exception as error:
            who = ", ".join(map(str, self.clients[:5])) + (", ..." if self.count > 5 else "")
            place = error_place(error, visits)
            error.add_note(f"(in round {self.broadcast.round}, in a stack of clients {who}{place})")
            raise

    @cached_property
    def contexts(self) -> list[ClientContext]:
        """What each piece sees."""
        return [self._open(piece) for piece in self.job.pieces]

    def full_gradient(self) -> tuple[ReplyBatch, ClientState]:
        """The gradient over all of each client's data where the model stands."""
        self.batched.buffers = self.buffers
        gradient, unknown = (
            self._whole(self.sent),
            torch.full((self.count,), torch.nan, dtype=torch.float64),
        )
        return self._reply_batch(
            gradient, self.buffers, self.examples, {}, {"loss": unknown}
        ), self._state

    def local_train(self) -> tuple[ReplyBatch, ClientState]:
        """Walk from what was sent."""
        stack = list(zip(self.job.pieces, self.contexts, strict=True))
        walked = local_train(
            stack, self.batched, self.sent, self.buffers, self.broadcast.lr, self._batches()
        )
        weights = walked.weights(self.examples) if self.job.learner.task.weighs else {}
        metrics = {"loss": walked.loss.double(), **measured(stack), **weights}
        if self.broadcast.instruction.tests and self.data[0].own_test is not None:
            metrics["own_accuracy"] = self._accuracies(walked.own)
        extras = {piece.key: v.outbox for piece, v in stack if v.outbox}
        own = walked.own if self.job.returns_models else None
        more = (walked.samples, extras, metrics, walked.steps, own)
        reply_batch = self._reply_batch(self.sent - walked.returned, walked.buffers, *more)
        return reply_batch, {piece.key: v.state for piece, v in stack if v.state}

    def _reply_batch(self, delta: Tensor, buffers: Tensor, samples: int, *more: Any) -> ReplyBatch:
        return ReplyBatch(self.clients, delta, buffers, self.examples, samples, *more)

    @cached_property
    def _state(self) -> ClientState:
        states = [request.state for request in self.requests]
        return {
            key: {name: torch.stack([state[key][name] for state in states]) for name in named}
            for key, named in states[0].items()
        }

    def _open(self, piece: Piece) -> StackContext:
        alike = vars(open_context(self.job, self.requests[0], self.data[0], piece))
        rows = {
            "client": -1,
            "clients": self.clients,
            "sent": self.sent,
            "start": self.sent,
            "end": self.sent,
            "state": dict(self._state.get(piece.key, {})),
            "oracle": partial(self._oracle, ()),
            "full_gradient": self._whole,
            "preceding": preceding(self.broadcast, *self.clients),
        }
        return StackContext(**{**alike, **rows})

    def _oracle(self, terms: Terms, places: Tensor) -> StackOracle:
        """The oracle of everybody's examples at ``places``, as they are; statistics do not move."""
        return self.batched.oracle(self._batch(places.expand(self.count, -1)), terms, still=True)

    def _whole(self, w: Tensor) -> Tensor:
        terms = [(piece, self._open(piece)) for piece in self.job.pieces if isinstance(piece, Term)]
        return batched_gradient(partial(self._oracle, terms), self.examples, w)

    def _accuracies(self, own: Model) -> Tensor:
        """How well each client's own model does on what it keeps for testing."""
        learner, found = self.job.learner, []
        for w, buffers, data in zip(own.params, own.buffers, self.data, strict=True):
            assert data.own_test is not None
            learner.flat.load(w)
            learner.flat.buffers = buffers
            found.append(headline(learner, data.own_test))
        return torch.tensor(found, dtype=torch.float64)

    def _batches(self) -> Iterator[Batch]:
        if self.job.learner.task.makes_batches:
            yield from self._made_by_the_task()
            return
        if self._everything:
            places = torch.arange(self.examples).expand(self.count, -1)
            for _ in range(
                self.job.local.planned_steps(self.broadcast.round, self.clients[0], self.examples)
            ):
                yield self._batch(places)
            return
        seed, t, again = self.job.seed, self.broadcast.round, self.broadcast.repetition
        rngs = (
            [torch_generator(seed, "augment", *self.broadcast.path(k)) for k in self.clients]
            if self._augments
            else None
        )
        orders = [
            self.job.local.batches(seed, t, client, self.examples, again) for client in self.clients
        ]
        for step in zip(*orders, strict=True):
            yield self._batch(torch.stack(step), rngs)

    def _made_by_the_task(self) -> Iterator[Batch]:
        """What the task makes for each client, by the client's own model."""
        asked = zip(count(), self.requests, self.data, strict=False)
        makers = [
            self.job.learner.task.batches(
                task_batches(self.job, request, data, partial(self._output, row))
            )
            for row, request, data in asked
        ]
        yield from map(stacked, zip(*makers, strict=True))

    def _output(self, row: int, inputs: Tensors) -> Any:
        learner, at = self.job.learner, self.batched.at
        assert at is not None, "no walk has begun"
        learner.flat.buffers = self.batched.buffers[row]
        learner.at = at[row]
        return learner.output(inputs)

    @property
    def _augments(self) -> bool:
        return any(one.examples.augments for one in self.data)

    @property
    def _everything(self) -> bool:
        """Whether each batch is all that a client holds, and nothing hangs on the order."""
        ordered = self._augments or any(
            type(piece).batch is not Piece.batch for piece in self.job.pieces
        )
        return not ordered and self.job.local.takes_all(self.examples)

    @cached_property
    def _index(self) -> Tensor | None:
        """Where everybody's examples are, if all are in one set."""
        one = self.data[0].examples
        return (
            torch.stack([d.index for d in self.data])
            if all(d.examples is one for d in self.data)
            else None
        )

    def _batch(self, places: Tensor, rngs: list[torch.Generator] | None = None) -> Batch:
        """The batch of each client's examples at its row of ``places``; augmented with generators
        to do it with."""
        dtype = self.job.learner.dtype
        if self._index is None or rngs is not None:
            ours = zip(self.data, places, rngs or repeat(None, self.count), strict=True)
            return stacked([data.batch(mine, dtype, rng) for data, mine, rng in ours])
        index = self._index.gather(1, places.to(self._index.device))
        batch = self.data[0].examples.batch(index.flatten(), dtype)
        rows_of: Batch = each(lambda t: t.unflatten(0, index.shape), batch)
        return rows_of
