"""What travels between server and clients, and how replies become one.

One **exchange** is a `Broadcast` to each client of the cohort and a `Reply` from each. Replies are
folded into `Replies` as they come, in the order of the letters: memory does not grow with the
cohort. Clients that were visited in a stack reply in a `ReplyBatch`, which is folded at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from fedflat.core.flat import Model
from fedflat.core.instruction import Instruction
from fedflat.core.seeds import request_seed
from fedflat.errors import FedflatError
from fedflat.registry.specs import parse

WEIGHT = "weight"
"""The metric by which a client counts under "sized" weighting, where that is not how many examples
it holds."""
Extras = Mapping[str, Mapping[str, Tensor]]
"""What pieces add to a message: piece key -> name -> tensor."""


def _tensors(extras: Extras) -> list[Tensor]:
    return [t for named in extras.values() for t in named.values()]


def _nbytes(*tensors: Tensor, extras: Extras) -> int:
    return sum(t.numel() * t.element_size() for t in (*tensors, *_tensors(extras)))


@dataclass(frozen=True)
class Broadcast:
    """From the server to a client."""

    round: int
    params: Tensor
    buffers: Tensor
    lr: float
    extras: Extras = field(default_factory=dict)
    instruction: Instruction = field(default_factory=lambda: parse("train", "ask"))
    """What the client is to do."""
    commit: bool = True
    """False: a probe; the client forgets that it was visited."""
    repeat: bool = False
    """The client still has this model from the exchange before: it is not sent again. For those to
    say who send."""
    preceding: Mapping[int, tuple[int, float]] = field(default_factory=dict)
    """For each client, how many are asked before it in this exchange, and the sum of their mean
    batches; only if a piece of the method wants to know (`Piece.needs_cohort_order`)."""
    repetition: int = 0
    """How often the client was visited before in this exchange: a chain may come by again."""

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the tensors sent."""
        model = (
            () if self.repeat or not self.instruction.needs_model else (self.params, self.buffers)
        )
        return _nbytes(*model, extras=self.extras)

    @cached_property
    def models(self) -> int:
        """Vectors of the model's size that are sent; what is smaller does not count."""
        model = 0 if self.repeat or not self.instruction.needs_model else 1
        return model + sum(t.numel() == self.params.numel() for t in _tensors(self.extras))

    def path(self, client: int) -> tuple[int, ...]:
        """What a client's draws in this visit hang on, besides the seed and their purpose."""
        return request_seed(self.round, client, self.repetition)

    def after(self, last: Broadcast | None) -> Broadcast:
        """The same to a client whose last mail was ``last``: the model it still has is not sent
        again."""
        had = last if last is not None and last.instruction.needs_model else None
        has = had is not None and had.params is self.params and had.buffers is self.buffers
        return self if has == self.repeat else replace(self, repeat=has)

    def enclose(self, key: str, **tensors: Tensor) -> Broadcast:
        """The same mail with ``tensors`` for the piece ``key``."""
        return replace(self, extras={**self.extras, key: tensors})


class _Payload:
    """What one client or many have sent."""

    delta: Tensor
    buffers: Tensor
    extras: Extras

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors sent."""
        return _nbytes(self.delta, self.buffers, extras=self.extras)

    @property
    def models(self) -> int:
        """Vectors of the model's size, one for each row of a sheaf; what is smaller does not
        count."""
        if not self.delta.numel():
            return 0
        size, rows = self.delta.shape[-1], self.delta.numel() // self.delta.shape[-1]
        return rows * (1 + sum(t.numel() == rows * size for t in _tensors(self.extras)))

    @property
    def finite(self) -> bool:
        """Whether everything in it is a number."""
        return all(_finite(t) for t in (self.delta, self.buffers, *_tensors(self.extras)))


@dataclass(frozen=True)
class Reply(_Payload):
    """From a client to the server."""

    client: int
    delta: Tensor
    """Sent minus returned, so it points uphill as a gradient does."""
    buffers: Tensor
    examples: int
    """How many examples the client holds."""
    samples: int
    """How many it went through in this visit, epochs counted."""
    extras: Extras
    metrics: Mapping[str, float]
    steps: int = 1
    """Local steps taken."""
    client_params: Model | None = None
    """The client's own model where its walk ended, if somebody wants to look at it
    (`ClientJob.returns_models`): a matter of the simulation, no part of what is sent."""
    request: str = ""
    """The id of the letter that it answers."""

    @property
    def weight(self) -> float:
        """Its weight under "sized" weighting: the examples, or what was counted in them, such as
        labelled pixels."""
        return self.metrics.get(WEIGHT, self.examples)


@dataclass(frozen=True)
class ReplyBatch(_Payload):
    """Replies of one shape, from clients that hold equally many examples: a row for each in every
    tensor."""

    clients: Sequence[int]
    delta: Tensor
    buffers: Tensor
    examples: int
    """How many examples each of them holds."""
    samples: int
    """How many each went through in this visit, epochs counted."""
    extras: Extras
    metrics: Mapping[str, Tensor]
    steps: int = 1
    """Local steps each has taken."""
    client_params: Model | None = None
    """Their own models, as in `Reply`."""
    requests: Sequence[str] = ()
    """The ids of the letters that they answer."""

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def mean(self) -> Reply:
        """Their mean, by size as well as each alike, as if one client had sent it."""
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
        """The replies one by one."""
        metrics = {name: values.tolist() for name, values in self.metrics.items()}
        requests = self.requests or [""] * len(self)
        for i, (client, extras) in enumerate(
            zip(self.clients, unstack(self.extras, len(self)), strict=True)
        ):
            mine = {name: values[i] for name, values in metrics.items()}
            own = (
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
                mine,
                self.steps,
                own,
                requests[i],
            )


def unstack(stacked: Extras, count: int) -> Iterator[dict[str, dict[str, Tensor]]]:
    """The ``count`` rows of stacked tensors under the same names, copied: one that is kept does not
    keep the others."""
    for i in range(count):
        yield {
            key: {name: t[i].clone() for name, t in named.items()} for key, named in stacked.items()
        }


def _finite(t: Tensor) -> bool:
    # The sum is finite only if every entry is; it may overflow without one, so look again before
    # saying no.
    return not t.numel() or bool(torch.isfinite(t.sum())) or bool(torch.isfinite(t).all())


@dataclass(frozen=True)
class Replies:
    """All replies of one exchange, folded."""

    broadcast: Broadcast
    """What was really sent: a probe may have moved the parameters."""
    delta: Tensor
    """The mean by the method's weighting, "sized" or "uniform"."""
    buffers: Tensor
    uniform: Tensor
    """The mean delta in which each client counts alike."""
    count: int
    population: int
    loss: float
    """The mean training loss, weighted like ``delta``; a client whose loss is over nothing does not
    count."""
    steps: float
    """The mean number of local steps, each client alike."""
    means: Mapping[tuple[str, str, str], Tensor]
    batch: float = 0.0
    """The mean number of examples a local step, each client alike."""
    weighting: str = "sized"
    """How ``delta`` is weighted."""
    weight: float = 0.0
    """What the replies weigh together, in examples or in clients."""

    def mean(self, key: str, name: str, weighting: str = "uniform") -> Tensor:
        """The mean of an extra: each client alike, or "sized"."""
        return self.means[key, name, weighting]

    def with_delta(self, delta: Tensor) -> Replies:
        """The same replies with another pseudo-gradient."""
        return replace(self, delta=delta)


class _Mean:
    """A running weighted mean; for equal weights it has the bits of the plain mean of the same
    order."""

    def __init__(self) -> None:
        self.weight = 0.0
        self.value: Tensor | None = None

    def add(self, value: Tensor, weight: float) -> None:
        self.weight += weight
        if self.value is None:
            self.value = value.clone()
        else:
            self.value.lerp_(value, weight / self.weight if self.weight else 0.0)


def _alike(some: Reply | ReplyBatch) -> Iterator[tuple[Reply, int]]:
    """Replies that count alike, as one, and how many they are."""
    if isinstance(some, Reply):
        yield some, 1
    elif WEIGHT in some.metrics:
        yield from ((one, 1) for one in some)
    else:
        yield some.mean, len(some)


Combine = Callable[[Tensor, Tensor], Tensor]
"""From replies' deltas in rows and their weights, which sum to 1, to one vector."""


def aggregate(
    broadcast: Broadcast,
    replies: Iterable[Reply | ReplyBatch],
    *,
    population: int,
    weighting: str,
    aggregator: Combine | None = None,
) -> Replies:
    """Fold replies as they come. ``weighting`` is "sized" (by weight) or "uniform"; a ``rule``
    replaces the mean."""
    if aggregator is not None:
        singles = [
            single
            for reply in replies
            for single in (reply if isinstance(reply, ReplyBatch) else (reply,))
        ]
        return _combine(broadcast, singles, population, weighting, aggregator)
    delta, buffers, uniform, loss = _Mean(), _Mean(), _Mean(), _Mean()
    means: dict[tuple[str, str, str], _Mean] = defaultdict(_Mean)
    count, steps, batch = 0, 0, 0.0
    for reply, n in (part for some in replies for part in _alike(some)):
        count += n
        weight = n * (reply.weight if weighting == "sized" else 1)
        delta.add(reply.delta, weight)
        uniform.add(reply.delta, n)
        buffers.add(reply.buffers, weight)
        loss.add(
            torch.tensor(reply.metrics["loss"], dtype=torch.float64),
            weight if reply.weight else 0.0,
        )
        steps += n * reply.steps
        batch += n * reply.samples / reply.steps
        for key, named in reply.extras.items():
            for name, tensor in named.items():
                means[key, name, "uniform"].add(tensor, n)
                means[key, name, "sized"].add(tensor, n * reply.weight)
    if delta.value is None or buffers.value is None or uniform.value is None or loss.value is None:
        raise FedflatError(
            f"round {broadcast.round}: no client's reply could be used, so there is nothing to average. "
            "Lower the learning rate, or stop at the first bad reply to see it (on_bad='raise')."
        )
    return Replies(
        broadcast,
        delta.value,
        buffers.value,
        uniform.value,
        count,
        population,
        float(loss.value),
        steps / count,
        {name: mean.value for name, mean in means.items() if mean.value is not None},
        batch / count,
        weighting,
        delta.weight,
    )


def _combine(
    broadcast: Broadcast, replies: list[Reply], population: int, weighting: str, aggregator: Combine
) -> Replies:
    folded = aggregate(broadcast, replies, population=population, weighting=weighting)
    weights = torch.tensor(
        [r.weight if weighting == "sized" else 1.0 for r in replies], dtype=torch.float64
    )
    weights = weights if weights.any() else torch.ones_like(weights)
    delta = aggregator(torch.stack([reply.delta for reply in replies]), weights / weights.sum())
    return replace(folded, delta=delta, uniform=delta)
