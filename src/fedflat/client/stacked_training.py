"""Local training of many clients at once: every vector has a row for each client.

Only clients that do the same in every step can share a stack. They have equally many examples, get
the same broadcast and store tensors of the same shapes. Other clients train in stacks of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count, repeat
from typing import Any

import torch
from torch import Tensor

from fedflat.client.evaluate import headline
from fedflat.client.full_gradient import batched_gradient
from fedflat.client.learner import Terms
from fedflat.client.piece import ClientContext, ClientState, Piece, Term
from fedflat.client.request_columns import RequestColumns
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
from fedflat.core.messages import Extras, ReplyBatch
from fedflat.core.seeds import request_seed, torch_generator
from fedflat.data.cohort import CohortData
from fedflat.data.examples import AnyExamples, Batch, ClientData, Tensors, each, rows, stacked


@dataclass
class StackContext(ClientContext):
    """What one piece sees of a stack of clients in one exchange. ``client`` is not used."""

    clients: tuple[int, ...] = ()
    """Numbers of the clients, in the order of rows."""

    @cached_property
    def rngs(self) -> list[torch.Generator]:
        """Random generators of the piece, one per client."""
        paths = (request_seed(self.round, client, self.repetition) for client in self.clients)
        return [torch_generator(self.seed, f"piece/{self.key}", *path) for path in paths]

    def draw(self, make: Callable[[torch.Generator], Tensor]) -> Tensor:
        """Call ``make`` with each client's generator and stack the results."""
        return torch.stack([make(rng) for rng in self.rngs])

    def transform(self, batch: Batch, make: Callable[[Batch, torch.Generator], Batch]) -> Batch:
        """Call ``make`` with each client's batch and generator, and stack the results."""
        return stacked([make(one, rng) for one, rng in zip(rows(batch), self.rngs, strict=True)])


def signature(job: ClientJob, request: Request, data: ClientData) -> Any:
    """Return a key: clients with equal keys can share a stack."""
    broadcast = request.broadcast
    if not broadcast.instruction.stackable:
        return id(broadcast), request.client
    epoch_size = job.learner.task.epoch_size(data)
    same = id(broadcast), len(data), epoch_size
    if not request.state and job.local.orders is None:  # the most common case
        return same
    shapes = frozenset(
        (k, n, t.shape, t.dtype) for k, named in request.state.items() for n, t in named.items()
    )
    if job.local.orders is None:
        return *same, shapes
    batches = job.local.batches(job.seed, request.broadcast.round, request.client, epoch_size)
    return *same, shapes, *map(len, batches)


def alike(job: ClientJob, requests: RequestColumns, data: Sequence[ClientData]) -> bool:
    """Whether all of these clients can share a stack: they have the same `signature`."""
    ordered = job.local.orders is not None or not job.learner.task.trains_on_all
    if isinstance(data, CohortData) and requests.states is None and not ordered:
        return True  # without looking at each client
    return len({signature(job, *one) for one in zip(requests, data, strict=True)}) == 1


def run_stack(
    job: ClientJob,
    batched: StackedGradients,
    requests: RequestColumns,
    data: Sequence[ClientData],
) -> tuple[ReplyBatch, ClientState]:
    """Carry out the broadcast's instruction on all clients.

    The replies and new states have a row per client.
    """
    return Stack(requests.broadcast.instruction.job(job), batched, requests, data).run()


class Stack:
    """A stack of clients as an `Instruction` sees it."""

    def __init__(
        self,
        job: ClientJob,
        batched: StackedGradients,
        requests: RequestColumns,
        data: Sequence[ClientData],
    ) -> None:
        self.job, self.batched, self.requests = job, batched, requests
        self.clients = tuple(requests.clients)
        self.data = job.cohort_data(self.clients, data)
        self.first = self.data[0]
        self.broadcast = requests.broadcast
        self.count = len(requests)
        self.examples = len(data[0])
        self.sent = self.broadcast.params.expand(self.count, -1)
        self.buffers = self.broadcast.buffers.expand(self.count, -1)

    def run(self) -> tuple[ReplyBatch, ClientState]:
        """Carry out the broadcast's instruction."""
        contexts = self.contexts
        try:
            outcome: tuple[ReplyBatch, ClientState] = self.broadcast.instruction.run(self)
            return outcome
        except Exception as error:
            names = ", ".join(map(str, self.clients[:5])) + (", ..." if self.count > 5 else "")
            place = error_place(error, contexts)
            error.add_note(
                f"(in round {self.broadcast.round + 1}, in a stack of clients {names}{place})"
            )
            raise
        finally:
            # Contexts refer to this stack: without the cycle its tensors are freed at once.
            del self.contexts

    @cached_property
    def contexts(self) -> list[ClientContext]:
        """The context of each piece."""
        return [self._open(piece) for piece in self.job.pieces]

    def full_gradient(self) -> tuple[ReplyBatch, ClientState]:
        """Compute the gradient over all of each client's data at the parameters that were sent."""
        self.batched.buffers = self.buffers
        gradient = self._full_gradient(self.sent)
        unknown = torch.full((self.count,), torch.nan, dtype=torch.float64)
        metrics = {"loss": unknown}
        reply = self._reply_batch(gradient, self.buffers, self.examples, {}, metrics)
        return reply, self._state

    def local_train(self) -> tuple[ReplyBatch, ClientState]:
        """Train from the parameters that were sent."""
        stack = list(zip(self.job.pieces, self.contexts, strict=True))
        result = local_train(
            stack, self.batched, self.sent, self.buffers, self.broadcast.lr, self._batches()
        )
        delta = self.sent - result.returned
        for piece, v in stack:
            delta = piece.upload(v, delta)
        weights = result.weights(self.examples) if self.job.learner.task.weighs else {}
        metrics = {"loss": result.loss.double(), **measured(stack), **weights}
        if self.broadcast.instruction.tests and self.first.own_test is not None:
            metrics["own_accuracy"] = self._accuracies(result.own)
        extras = {piece.key: v.outbox for piece, v in stack if v.outbox}
        own = result.own if self.job.returns_models else None
        more = (result.samples, extras, metrics, result.steps, own)
        reply_batch = self._reply_batch(delta, result.buffers, *more)
        return reply_batch, {piece.key: v.state for piece, v in stack if v.state}

    def _reply_batch(
        self,
        delta: Tensor,
        buffers: Tensor,
        samples: int,
        extras: Extras,
        metrics: Mapping[str, Tensor],
        steps: int = 1,
        own: Model | None = None,
    ) -> ReplyBatch:
        return ReplyBatch(
            self.clients,
            delta,
            buffers,
            self.examples,
            samples,
            extras,
            metrics,
            steps,
            own,
            self.requests.ids,
        )

    @cached_property
    def _state(self) -> ClientState:
        states = self.requests.states or [{}]
        return {
            key: {name: torch.stack([state[key][name] for state in states]) for name in named}
            for key, named in states[0].items()
        }

    def _open(self, piece: Piece) -> StackContext:
        context = object.__new__(StackContext)  # all of its fields follow
        vars(context).update(
            vars(open_context(self.job, self.requests[0], self.first, piece)),
            client=-1,
            clients=self.clients,
            sent=self.sent,
            start=self.sent,
            end=self.sent,
            state=dict(self._state.get(piece.key, {})),
            oracle=partial(self._oracle, ()),
            full_gradient=self._full_gradient,
            preceding=preceding(self.broadcast, *self.clients),
        )
        return context

    def _oracle(self, terms: Terms, indices: Tensor) -> StackOracle:
        """The gradient function of all clients' examples at ``indices``.

        Running statistics do not change.
        """
        return self.batched.oracle(self._batch(indices.expand(self.count, -1)), terms, still=True)

    def _full_gradient(self, w: Tensor) -> Tensor:
        terms = [(piece, self._open(piece)) for piece in self.job.pieces if isinstance(piece, Term)]
        return batched_gradient(partial(self._oracle, terms), self.examples, w)

    def _accuracies(self, own: Model) -> Tensor:
        """The headline of each client's own model on its own test examples."""
        learner, found = self.job.learner, []
        for w, buffers, data in zip(own.params, own.buffers, self.data, strict=True):
            assert data.own_test is not None
            learner.flat.load(w)
            learner.flat.buffers = buffers
            found.append(headline(learner, data.own_test))
        return torch.tensor(found, dtype=torch.float64)

    def _batches(self) -> Iterator[Batch]:
        if self.job.learner.task.makes_batches:
            yield from self._task_batches()
            return
        if self._full_batches:
            local, t = self.job.local, self.broadcast.round
            for _ in range(local.planned_steps(t, self.clients[0], self.examples)):
                if self._index is None:
                    yield self._batch(torch.arange(self.examples).expand(self.count, -1))
                else:
                    yield self._taken(self._index)
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

    def _task_batches(self) -> Iterator[Batch]:
        clients = zip(count(), self.requests, self.data, strict=False)
        makers = [
            self.job.learner.task.batches(
                task_batches(self.job, request, data, partial(self._output, row))
            )
            for row, request, data in clients
        ]
        yield from map(stacked, zip(*makers, strict=True))

    def _output(self, row: int, inputs: Tensors) -> Any:
        learner, at = self.job.learner, self.batched.at
        assert at is not None, "training has not begun"
        learner.flat.buffers = self.batched.buffers[row]
        learner.at = at[row]
        return learner.output(inputs)

    @cached_property
    def _examples(self) -> AnyExamples | None:
        """The set that all clients' examples are in, if it is one."""
        if isinstance(self.data, CohortData):
            return self.data.examples
        one = self.first.examples
        return one if all(d.examples is one for d in self.data) else None

    @cached_property
    def _augments(self) -> bool:
        if self._examples is not None:
            return self._examples.augments
        return any(one.examples.augments for one in self.data)

    @property
    def _full_batches(self) -> bool:
        """Whether each batch has all of a client's examples, and their order does not matter."""
        ordered = self._augments or any(
            type(piece).batch is not Piece.batch for piece in self.job.pieces
        )
        return not ordered and self.job.local.takes_all(self.examples)

    @cached_property
    def _index(self) -> Tensor | None:
        """Indices of all clients' examples, if they share one set."""
        if isinstance(self.data, CohortData):
            return self.data.rows
        return None if self._examples is None else torch.stack([d.index for d in self.data])

    def _batch(self, indices: Tensor, rngs: list[torch.Generator] | None = None) -> Batch:
        """The batch of each client's row of ``indices``; augmented if there are generators."""
        dtype = self.job.learner.dtype
        if self._index is None or rngs is not None:
            clients = zip(self.data, indices, rngs or repeat(None, self.count), strict=True)
            return stacked([data.batch(indices, dtype, rng) for data, indices, rng in clients])
        return self._taken(self._index.gather(1, indices.to(self._index.device)))

    def _taken(self, index: Tensor) -> Batch:
        """The examples at each client's row of ``index``, in the set that all clients share."""
        batch = self.first.examples.batch(index.flatten(), self.job.learner.dtype)
        rows_of: Batch = each(lambda t: t.reshape(index.shape + t.shape[1:]), batch)
        return rows_of
