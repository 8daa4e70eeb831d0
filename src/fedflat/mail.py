"""What travels between server and clients, and how replies become one.

One **exchange** is a `Mail` to each client of the cohort and a `Reply` from each. Replies are folded into
`Replies` as they come, in the order of the letters: memory does not grow with the cohort.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fedflat.errors import FedflatError

Extras = Mapping[str, Mapping[str, Tensor]]
"""What pieces add to a message: piece key -> name -> tensor."""


def _nbytes(*tensors: Tensor, extras: Extras) -> int:
    more = [t for named in extras.values() for t in named.values()]
    return sum(t.numel() * t.element_size() for t in (*tensors, *more))


@dataclass(frozen=True)
class Mail:
    """From the server to a client."""

    round: int
    params: Tensor
    buffers: Tensor
    lr: float
    extras: Extras = field(default_factory=dict)
    task: str = "train"
    """"train": walk; "tune": walk with the last layer only; "gradient": the gradient over all data, no walk."""
    commit: bool = True
    """False: a probe; the client forgets that it was visited."""
    repeat: bool = False
    """The client still has this model from the exchange before: it is not sent again."""

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors sent."""
        model = () if self.repeat else (self.params, self.buffers)
        return _nbytes(*model, extras=self.extras)

    def enclose(self, key: str, **tensors: Tensor) -> Mail:
        """The same mail with ``tensors`` for the piece ``key``."""
        return replace(self, extras={**self.extras, key: tensors})


@dataclass(frozen=True)
class Reply:
    """From a client to the server."""

    client: int
    delta: Tensor
    """Sent minus returned, so it points uphill as a gradient does."""
    buffers: Tensor
    examples: int
    """How many examples the client holds: its weight under "sized" weighting."""
    samples: int
    """How many it went through in this visit, epochs counted."""
    extras: Extras
    metrics: Mapping[str, float]
    steps: int = 1
    """Local steps taken."""

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors sent."""
        return _nbytes(self.delta, self.buffers, extras=self.extras)

    @property
    def finite(self) -> bool:
        """Whether everything in it is a number."""
        more = [t for named in self.extras.values() for t in named.values()]
        return all(_finite(t) for t in (self.delta, self.buffers, *more))


def _finite(t: Tensor) -> bool:
    # The sum is finite only if every entry is; it may overflow without one, so look again before saying no.
    return bool(torch.isfinite(t.sum())) or bool(torch.isfinite(t).all())


@dataclass(frozen=True)
class Replies:
    """All replies of one exchange, folded."""

    mail: Mail
    """What was really sent: a probe may have moved the parameters."""
    delta: Tensor
    """The mean by the method's weighting, "sized" or "uniform"."""
    buffers: Tensor
    uniform: Tensor
    """The mean delta in which each client counts alike."""
    count: int
    population: int
    loss: float
    """The mean training loss, weighted like ``delta``."""
    steps: float
    """The mean number of local steps, each client alike."""
    means: Mapping[tuple[str, str, str], Tensor]

    def mean(self, key: str, name: str, weighting: str = "uniform") -> Tensor:
        """The mean of an extra: each client alike, or "sized"."""
        return self.means[key, name, weighting]

    def with_delta(self, delta: Tensor) -> Replies:
        """The same replies with another pseudo-gradient."""
        return replace(self, delta=delta)


class _Mean:
    """A running weighted mean; for equal weights it has the bits of the plain mean of the same order."""

    def __init__(self) -> None:
        self.weight = 0
        self.value: Tensor | None = None

    def add(self, value: Tensor, weight: int) -> None:
        self.weight += weight
        if self.value is None:
            self.value = value.clone()
        else:
            self.value.lerp_(value, weight / self.weight)


Combine = Callable[[Tensor, Tensor], Tensor]
"""From replies' deltas in rows and their weights, which sum to 1, to one vector."""


def fold(
    mail: Mail, replies: Iterable[Reply], *, population: int, weighting: str, rule: Combine | None = None
) -> Replies:
    """Fold replies as they come. ``weighting`` is "sized" (by examples) or "uniform"; a ``rule`` replaces the mean."""
    if rule is not None:
        return _combine(mail, list(replies), population, weighting, rule)
    delta, buffers, uniform, loss = _Mean(), _Mean(), _Mean(), _Mean()
    means: dict[tuple[str, str, str], _Mean] = defaultdict(_Mean)
    count = steps = 0
    for reply in replies:
        count += 1
        weight = reply.examples if weighting == "sized" else 1
        delta.add(reply.delta, weight)
        uniform.add(reply.delta, 1)
        buffers.add(reply.buffers, weight)
        loss.add(torch.tensor(reply.metrics["loss"], dtype=torch.float64), weight)
        steps += reply.steps
        for key, named in reply.extras.items():
            for name, tensor in named.items():
                means[key, name, "uniform"].add(tensor, 1)
                means[key, name, "sized"].add(tensor, reply.examples)
    if delta.value is None or buffers.value is None or uniform.value is None or loss.value is None:
        raise FedflatError(
            f"round {mail.round}: no client's reply could be used, so there is nothing to average. "
            "Lower the learning rate, or stop at the first bad reply to see it (on_bad='raise')."
        )
    return Replies(
        mail, delta.value, buffers.value, uniform.value, count, population, float(loss.value), steps / count,
        {name: mean.value for name, mean in means.items() if mean.value is not None},
    )  # fmt: skip


def _combine(mail: Mail, replies: list[Reply], population: int, weighting: str, rule: Combine) -> Replies:
    folded = fold(mail, replies, population=population, weighting=weighting)
    weights = torch.tensor([r.examples if weighting == "sized" else 1.0 for r in replies], dtype=torch.float64)
    delta = rule(torch.stack([reply.delta for reply in replies]), weights / weights.sum())
    return replace(folded, delta=delta, uniform=delta)
