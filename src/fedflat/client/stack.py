"""A visit to many clients at once: the same walk, with a row for each client in every vector.

Only clients that do the same in every step can share a stack: they hold equally many examples, get the same mail and
remember tensors of the same shapes. Others are visited in stacks of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count, repeat
from typing import Any

import torch
from torch import Tensor

from fedflat.client.attacker import used
from fedflat.client.batched import Batched, StackOracle
from fedflat.client.judge import headline
from fedflat.client.learner import Terms
from fedflat.client.piece import Memory, Piece, Term, Visit
from fedflat.client.survey import survey
from fedflat.client.visit import ClientJob, Letter, before, error_place, measured, open_visit, supply, walk
from fedflat.data.batch import Batch, Tensors, each, rows, stacked
from fedflat.data.examples import ClientData
from fedflat.engine.flat import Model
from fedflat.engine.mail import Sheaf
from fedflat.engine.seeds import of_visit, torch_generator


@dataclass
class StackVisit(Visit):
    """Many clients in one exchange, as one piece sees them; ``client`` says nothing."""

    clients: tuple[int, ...] = ()

    @cached_property
    def rngs(self) -> list[torch.Generator]:
        """The piece's own random numbers at each client."""
        paths = (of_visit(self.round, client, self.visit) for client in self.clients)
        return [torch_generator(self.seed, f"piece/{self.key}", *path) for path in paths]

    def draw(self, make: Callable[[torch.Generator], Tensor]) -> Tensor:
        """What ``make`` makes of each client's random numbers, in rows."""
        return torch.stack([make(rng) for rng in self.rngs])

    def change(self, batch: Batch, make: Callable[[Batch, torch.Generator], Batch]) -> Batch:
        """What ``make`` makes of each client's batch and random numbers."""
        return stacked([make(one, rng) for one, rng in zip(rows(batch), self.rngs, strict=True)])


def signature(job: ClientJob, letter: Letter, examples: int) -> Any:
    """Clients with equal signatures can share a stack: the very same mail, equal sizes, shapes and batches."""
    if not letter.mail.ask.stacks:
        return id(letter.mail), letter.client
    shapes = frozenset((k, n, t.shape, t.dtype) for k, named in letter.memory.items() for n, t in named.items())
    given = job.local.orders is not None
    lengths = [len(b) for b in job.local.batches(job.seed, letter.mail.round, letter.client, examples)] if given else []
    return id(letter.mail), examples, shapes, *lengths


def stacked_visit(
    job: ClientJob, batched: Batched, letters: Sequence[Letter], data: Sequence[ClientData]
) -> tuple[Sheaf, Memory]:
    """Do what the mail asks of every client; their replies, and what they remember from now on, in rows."""
    sheaf, memory = Stack(letters[0].mail.ask.job(job), batched, letters, data).visit()
    return replace(sheaf, letters=[letter.id for letter in letters]), memory


class Stack:
    """Clients as an ask sees them together: what they can do at once."""

    def __init__(
        self, job: ClientJob, batched: Batched, letters: Sequence[Letter], data: Sequence[ClientData]
    ) -> None:  # fmt: skip
        self.job, self.batched, self.letters = job, batched, letters
        self.data = [used(job.attackers, letter.client, held) for letter, held in zip(letters, data, strict=True)]
        self.mail, self.count, self.examples = letters[0].mail, len(letters), len(data[0])
        self.clients = tuple(letter.client for letter in letters)
        self.sent = self.mail.params.expand(self.count, -1)
        self.buffers = self.mail.buffers.expand(self.count, -1)

    def visit(self) -> tuple[Sheaf, Memory]:
        """Do what the mail asks."""
        visits = self.visits
        try:
            done: tuple[Sheaf, Memory] = self.mail.ask.do(self)
            return done
        except Exception as error:
            who = ", ".join(map(str, self.clients[:5])) + (", ..." if self.count > 5 else "")
            place = error_place(error, visits)
            error.add_note(f"(in round {self.mail.round}, in a stack of clients {who}{place})")
            raise

    @cached_property
    def visits(self) -> list[Visit]:
        """What each piece sees."""
        return [self._open(piece) for piece in self.job.pieces]

    def survey(self) -> tuple[Sheaf, Memory]:
        """The gradient over all of each client's data where the model stands."""
        self.batched.buffers = self.buffers
        gradient, unknown = self._whole(self.sent), torch.full((self.count,), torch.nan, dtype=torch.float64)
        return self._sheaf(gradient, self.buffers, self.examples, {}, {"loss": unknown}), self._memory

    def walk(self) -> tuple[Sheaf, Memory]:
        """Walk from what was sent."""
        stack = list(zip(self.job.pieces, self.visits, strict=True))
        walked = walk(stack, self.batched, self.sent, self.buffers, self.mail.lr, self._batches())
        weights = walked.weights(self.examples) if self.job.learner.task.weighs else {}
        metrics = {"loss": walked.loss.double(), **measured(stack), **weights}
        if self.mail.ask.tests and self.data[0].own_test is not None:
            metrics["own_accuracy"] = self._accuracies(walked.own)
        extras = {piece.key: v.outbox for piece, v in stack if v.outbox}
        own = walked.own if self.job.shows else None
        more = (walked.samples, extras, metrics, walked.steps, own)
        sheaf = self._sheaf(self.sent - walked.returned, walked.buffers, *more)
        return sheaf, {piece.key: v.memory for piece, v in stack if v.memory}

    def _sheaf(self, delta: Tensor, buffers: Tensor, samples: int, *more: Any) -> Sheaf:
        return Sheaf(self.clients, delta, buffers, self.examples, samples, *more)

    @cached_property
    def _memory(self) -> Memory:
        memories = [letter.memory for letter in self.letters]
        return {
            key: {name: torch.stack([memory[key][name] for memory in memories]) for name in named}
            for key, named in memories[0].items()
        }

    def _open(self, piece: Piece) -> StackVisit:
        alike = vars(open_visit(self.job, self.letters[0], self.data[0], piece))
        rows = {
            "client": -1, "clients": self.clients, "sent": self.sent, "start": self.sent, "stop": self.sent,
            "memory": dict(self._memory.get(piece.key, {})), "oracle": partial(self._oracle, ()),
            "full_gradient": self._whole, "before": before(self.mail, *self.clients),
        }  # fmt: skip
        return StackVisit(**{**alike, **rows})

    def _oracle(self, terms: Terms, places: Tensor) -> StackOracle:
        """The oracle of everybody's examples at ``places``, as they are; statistics do not move."""
        return self.batched.oracle(self._batch(places.expand(self.count, -1)), terms, still=True)

    def _whole(self, w: Tensor) -> Tensor:
        terms = [(piece, self._open(piece)) for piece in self.job.pieces if isinstance(piece, Term)]
        return survey(partial(self._oracle, terms), self.examples, w)

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
            for _ in range(self.job.local.planned(self.mail.round, self.clients[0], self.examples)):
                yield self._batch(places)
            return
        seed, t, again = self.job.seed, self.mail.round, self.mail.visit
        rngs = [torch_generator(seed, "augment", *self.mail.path(k)) for k in self.clients] if self._augments else None
        orders = [self.job.local.batches(seed, t, client, self.examples, again) for client in self.clients]
        for step in zip(*orders, strict=True):
            yield self._batch(torch.stack(step), rngs)

    def _made_by_the_task(self) -> Iterator[Batch]:
        """What the task makes for each client, by the client's own model."""
        asked = zip(count(), self.letters, self.data, strict=False)
        makers = [
            self.job.learner.task.batches(supply(self.job, letter, data, partial(self._output, row)))
            for row, letter, data in asked
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
        ordered = self._augments or any(type(piece).batch is not Piece.batch for piece in self.job.pieces)
        return not ordered and self.job.local.takes_all(self.examples)

    @cached_property
    def _index(self) -> Tensor | None:
        """Where everybody's examples are, if all are in one set."""
        one = self.data[0].examples
        return torch.stack([d.index for d in self.data]) if all(d.examples is one for d in self.data) else None

    def _batch(self, places: Tensor, rngs: list[torch.Generator] | None = None) -> Batch:
        """The batch of each client's examples at its row of ``places``; augmented with generators to do it with."""
        dtype = self.job.learner.dtype
        if self._index is None or rngs is not None:
            ours = zip(self.data, places, rngs or repeat(None, self.count), strict=True)
            return stacked([data.batch(mine, dtype, rng) for data, mine, rng in ours])
        index = self._index.gather(1, places.to(self._index.device))
        batch = self.data[0].examples.batch(index.flatten(), dtype)
        rows_of: Batch = each(lambda t: t.unflatten(0, index.shape), batch)
        return rows_of
