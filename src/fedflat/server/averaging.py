"""Shadows: averages of models that are evaluated and never sent.

    SWA      Izmailov et al., UAI 2018; on the server, Caldarola et al., ECCV 2022: the mean of the models at
             the end of each learning-rate cycle, from round ``start`` on
    WiMA     the mean of the last ``window`` models
    EMA      an exponential mean

The running statistics of a shadow are those of the current model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedflat.core.flat import Layout
from fedflat.core.messages import Reply
from fedflat.core.schedules import Cyclic, Scalar, at, scalar
from fedflat.errors import SettingError, choice, flag, number
from fedflat.registry.specs import TextSpec


@dataclass(frozen=True)
class RunInfo:
    """What a shadow may know of the run."""

    rounds: int
    population: int
    layout: Layout
    own_accuracies: Callable[[Tensor], Tensor] | None = None
    """The accuracy of a parameter vector on each client's held-out part, where there are such
    parts."""


AverageState = dict[str, Tensor]
"""What a shadow remembers. Tensors are replaced, never changed in place."""


class ModelAverage(TextSpec):
    """A frozen dataclass of numbers; what changes lives in its notes."""

    key: ClassVar[str]
    needs_replies: ClassVar[bool] = False
    """Whether it wants every single reply."""
    needs_client_models: ClassVar[bool] = False
    """Whether it wants the client's own model with it."""
    client_vectors: ClassVar[int] = 0
    """Vectors of the model's size that it keeps for each client."""

    @property
    def changes_lr(self) -> bool:
        """Whether it changes the training, so that a run with it is not the run without it."""
        return False

    def init(self, info: RunInfo, params: Tensor) -> AverageState:
        """Its notes before round 0."""
        return {}

    def lr(self, lr: float, t: int, rounds: int) -> float:
        """The local learning rate of round ``t``, if it wants another."""
        return lr

    def on_reply(
        self, notes: AverageState, kept: AverageState, info: RunInfo, reply: Reply
    ) -> None:
        """A reply that counts has come. ``kept`` is what it keeps for this client, with the
        client's memory."""

    def update(
        self, notes: AverageState, info: RunInfo, t: int, before: Tensor, after: Tensor
    ) -> None:
        """Round ``t`` has turned ``before`` into ``after``."""

    def params(self, notes: AverageState, info: RunInfo, current: Tensor) -> Tensor | None:
        """The shadow's parameters, or None before its start."""
        return None

    def scores(self, notes: AverageState) -> dict[str, float]:
        """Measurements of its own, written with each evaluation."""
        return {}


@dataclass(frozen=True, repr=False)
class Swa(ModelAverage):
    """The mean of the models at the ends of the cycles; the rate falls from ``high`` to ``low`` in
    each."""

    start: float = 0.75
    cycle: int = 10
    high: float | None = None
    low: float | None = None
    cycle_lr: bool = True
    average: bool = True

    key = "swa"

    def __post_init__(self) -> None:
        number("swa", "start", self.start, low=0)
        if isinstance(self.start, float) and self.start >= 1:
            raise SettingError(
                f"swa: start must be a share of the run below 1.0 or a whole round number, found {self.start!r}."
            )
        number("swa", "cycle", self.cycle, low=1, whole=True)
        flag("swa", "cycle_lr", self.cycle_lr)
        flag("swa", "average", self.average)
        for name, value in (("high", self.high), ("low", self.low)):
            if value is not None:
                number("swa", name, value, low=0)

    @property
    def changes_lr(self) -> bool:
        """By its cyclic rate."""
        return self.cycle_lr

    def first(self, rounds: int) -> int:
        """The round it starts in."""
        return (
            self.start if isinstance(self.start, int) else int(self.start * rounds + 1e-9)
        )  # 0.57 * 100 is 56.99...

    def lr(self, lr: float, t: int, rounds: int) -> float:
        """The cyclic rate from the start on; ``high`` is the run's own rate, ``low`` 1 % of it, if
        not given."""
        if not self.cycle_lr or t < self.first(rounds):
            return lr
        high = lr if self.high is None else self.high
        low = high / 100 if self.low is None else self.low
        return Cyclic(high, low, self.cycle)(t - self.first(rounds))

    def update(
        self, notes: AverageState, info: RunInfo, t: int, before: Tensor, after: Tensor
    ) -> None:
        """Capture at the end of a cycle."""
        done = t - self.first(info.rounds) + 1
        if not self.average or done < 1:
            return
        mean, n = notes.get("mean", before), int(notes.get("captured", 0))
        if done % self.cycle == 0:
            mean = torch.lerp(mean, after, 1 / (n + 1))
            n += 1
        notes.update(mean=mean, captured=torch.tensor(n))

    def params(self, notes: AverageState, info: RunInfo, current: Tensor) -> Tensor | None:
        """The mean so far."""
        return notes.get("mean")


@dataclass(frozen=True, repr=False)
class Wima(ModelAverage):
    """The mean of the last ``window`` models, or of those there are; ``scope`` may limit it to one
    block.

    A round costs one vector whatever the window: the sum is moved by what comes and what goes, in
    double precision, and summed anew once in ``window`` rounds against drift.
    """

    window: int = 100
    scope: str = "all"

    key = "wima"

    def __post_init__(self) -> None:
        number("wima", "window", self.window, low=1, whole=True)
        choice("wima", "scope", self.scope, ["all", "classifier", "features"])

    def update(
        self, notes: AverageState, info: RunInfo, t: int, before: Tensor, after: Tensor
    ) -> None:
        """Take the new model in and the oldest out."""
        seen = int(notes.get("seen", 0))
        slot = f"slot{seen % self.window}"
        gone = notes.get(slot)
        notes[slot] = after
        notes["seen"] = torch.tensor(seen + 1)
        if (seen + 1) % self.window == 0:
            total = sum(notes[f"slot{i}"].double() for i in range(self.window))
            assert isinstance(total, Tensor)
        else:
            total = notes["sum"] + after.double() if "sum" in notes else after.double()
            total = total if gone is None else total - gone.double()
        notes["sum"] = total

    def params(self, notes: AverageState, info: RunInfo, current: Tensor) -> Tensor | None:
        """The mean of the window, in its scope."""
        if "sum" not in notes:
            return None
        mean = (notes["sum"] / min(int(notes["seen"]), self.window)).to(current.dtype)
        if self.scope == "all":
            return mean
        head = info.layout.classifier().to(current.device)
        return torch.where(head if self.scope == "classifier" else ~head, mean, current)


@dataclass(frozen=True, repr=False)
class Ema(ModelAverage):
    """``ema <- gamma ema + (1 - gamma) w``, begun at the first model."""

    gamma: Scalar = 0.9

    key = "ema"

    def __post_init__(self) -> None:
        scalar("ema", "gamma", self.gamma, high=1)

    def update(
        self, notes: AverageState, info: RunInfo, t: int, before: Tensor, after: Tensor
    ) -> None:
        """Move towards the new model."""
        gamma = at(self.gamma, t)
        notes["ema"] = gamma * notes["ema"] + (1 - gamma) * after if "ema" in notes else after

    def params(self, notes: AverageState, info: RunInfo, current: Tensor) -> Tensor | None:
        """The mean so far."""
        return notes.get("ema")


def params_of_reply(reply: Reply) -> Tensor:
    """Where the client's walk ended."""
    assert reply.client_params is not None, "the job does not show clients' own models"
    return reply.client_params.params


@dataclass(frozen=True, repr=False)
class ActiveClients(ModelAverage):
    """The plain mean of the models that the round's clients made, each where its walk ended."""

    key = "active_clients"
    needs_replies = needs_client_models = True

    def on_reply(
        self, notes: AverageState, kept: AverageState, info: RunInfo, reply: Reply
    ) -> None:
        """Add a client's model."""
        seen = int(notes.get("count", 0))
        model = params_of_reply(reply)
        notes["mean"] = torch.lerp(notes["mean"], model, 1 / (seen + 1)) if seen else model
        notes["count"] = torch.tensor(seen + 1)

    def update(
        self, notes: AverageState, info: RunInfo, t: int, before: Tensor, after: Tensor
    ) -> None:
        """The next round starts anew."""
        notes["count"] = torch.tensor(0)

    def params(self, notes: AverageState, info: RunInfo, current: Tensor) -> Tensor | None:
        """The mean of the round."""
        return notes.get("mean")


@dataclass(frozen=True, repr=False)
class AllClients(ModelAverage):
    """The plain mean over all clients of the last model each one made; those never seen hold the
    first model.

    A client's model is where its walk ended, also if the method sends something else back. It is
    kept with what the client remembers, within the same budget.
    """

    key = "all_clients"
    needs_replies = needs_client_models = True
    client_vectors = 1

    def init(self, info: RunInfo, params: Tensor) -> AverageState:
        """Everybody holds the first model."""
        return {"first": params, "mean": params}

    def on_reply(
        self, notes: AverageState, kept: AverageState, info: RunInfo, reply: Reply
    ) -> None:
        """Exchange a client's old model for its new one."""
        model = params_of_reply(reply)
        notes["mean"] = (
            notes["mean"] + (model - kept.get("model", notes["first"])) / info.population
        )
        kept["model"] = model

    def params(self, notes: AverageState, info: RunInfo, current: Tensor) -> Tensor | None:
        """The mean so far."""
        return notes["mean"]
