"""Averages of the server's models. They are evaluated and never sent.

    SWA      Izmailov et al., UAI 2018; on the server, Caldarola et al., ECCV 2022: the mean of the
             models at the end of each learning-rate cycle, from round ``start`` on
    WiMA     the mean of the last ``window`` models
    EMA      an exponential mean

An average has the running statistics of the current model.
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
    """What a model average knows about the run."""

    rounds: int
    """Number of rounds of the run."""
    population: int
    """Number of clients."""
    layout: Layout
    own_accuracies: Callable[[Tensor], Tensor] | None = None
    """The accuracy of a parameter vector on each client's own test examples; None if clients have
    none."""


AverageState = dict[str, Tensor]
"""Tensors that a model average stores, by name. Replace tensors, never change them in place."""


class ModelAverage(TextSpec):
    """Base class of model averages: a frozen dataclass. What changes is in its `AverageState`."""

    key: ClassVar[str]
    """Its name in results and checkpoints."""
    needs_replies: ClassVar[bool] = False
    """True if it needs every single reply."""
    needs_client_models: ClassVar[bool] = False
    """True if it also needs each client's own model."""
    client_vectors: ClassVar[int] = 0
    """Number of vectors of the model's size that it stores for each client."""

    @property
    def changes_lr(self) -> bool:
        """True if it changes the learning rate, so that training differs from a run without it."""
        return False

    def init(self, info: RunInfo, params: Tensor) -> AverageState:
        """Return its state before round 0."""
        return {}

    def lr(self, lr: float, t: int, rounds: int) -> float:
        """Return the local learning rate of round ``t``, given that of the run."""
        return lr

    def on_reply(
        self, state: AverageState, client_state: AverageState, info: RunInfo, reply: Reply
    ) -> None:
        """Update the state with a reply.

        ``client_state`` is what the average stores for this client, with the client's state.
        """

    def update(
        self, state: AverageState, info: RunInfo, t: int, before: Tensor, after: Tensor
    ) -> None:
        """Update the state after round ``t``, which changed ``before`` to ``after``."""

    def params(self, state: AverageState, info: RunInfo, current: Tensor) -> Tensor | None:
        """Return the averaged parameters, or None before the average starts."""
        return None

    def scores(self, state: AverageState) -> dict[str, float]:
        """Return its own measurements, written with each evaluation."""
        return {}


@dataclass(frozen=True, repr=False)
class Swa(ModelAverage):
    """The mean of the models at the ends of learning-rate cycles.

    start      first round: a share of the run (a float below 1) or a round number (an int)
    cycle      length of a cycle in rounds
    high, low  learning rate at the start and the end of each cycle; default: the run's, 1 % of it
    cycle_lr   False leaves the run's learning rate as it is
    average    False changes the learning rate only
    """

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
                "swa: start must be a share of the run below 1.0 or a whole round number, "
                f"found {self.start!r}."
            )
        number("swa", "cycle", self.cycle, low=1, whole=True)
        flag("swa", "cycle_lr", self.cycle_lr)
        flag("swa", "average", self.average)
        for name, value in (("high", self.high), ("low", self.low)):
            if value is not None:
                number("swa", name, value, low=0)

    @property
    def changes_lr(self) -> bool:
        """True if the learning rate is cyclic."""
        return self.cycle_lr

    def first(self, rounds: int) -> int:
        """Return the round in which it starts."""
        if isinstance(self.start, int):
            return self.start
        return int(self.start * rounds + 1e-9)  # 0.57 * 100 is 56.99...

    def lr(self, lr: float, t: int, rounds: int) -> float:
        """Return the cyclic learning rate, from the first round of the average on."""
        if not self.cycle_lr or t < self.first(rounds):
            return lr
        high = lr if self.high is None else self.high
        low = high / 100 if self.low is None else self.low
        return Cyclic(high, low, self.cycle)(t - self.first(rounds))

    def update(
        self, state: AverageState, info: RunInfo, t: int, before: Tensor, after: Tensor
    ) -> None:
        """Add the model at the end of a cycle."""
        done = t - self.first(info.rounds) + 1
        if not self.average or done < 1:
            return
        mean, n = state.get("mean", before), int(state.get("captured", 0))
        if done % self.cycle == 0:
            mean = torch.lerp(mean, after, 1 / (n + 1))
            n += 1
        state.update(mean=mean, captured=torch.tensor(n))

    def params(self, state: AverageState, info: RunInfo, current: Tensor) -> Tensor | None:
        return state.get("mean")


@dataclass(frozen=True, repr=False)
class Wima(ModelAverage):
    """The mean of the last ``window`` models, or of all models while there are fewer.

    ``scope`` may limit it to the classifier or to the features. A round costs one vector for any
    window: the newest model is added to the sum, in double precision, and the oldest is subtracted.
    Every ``window`` rounds the sum is computed again, which removes rounding errors.
    """

    window: int = 100
    scope: str = "all"

    key = "wima"

    def __post_init__(self) -> None:
        number("wima", "window", self.window, low=1, whole=True)
        choice("wima", "scope", self.scope, ["all", "classifier", "features"])

    def update(
        self, state: AverageState, info: RunInfo, t: int, before: Tensor, after: Tensor
    ) -> None:
        """Add the new model and remove the oldest."""
        seen = int(state.get("seen", 0))
        slot = f"slot{seen % self.window}"
        oldest = state.get(slot)
        state[slot] = after
        state["seen"] = torch.tensor(seen + 1)
        if (seen + 1) % self.window == 0:
            total = sum(state[f"slot{i}"].double() for i in range(self.window))
            assert isinstance(total, Tensor)
        else:
            total = state["sum"] + after.double() if "sum" in state else after.double()
            total = total if oldest is None else total - oldest.double()
        state["sum"] = total

    def params(self, state: AverageState, info: RunInfo, current: Tensor) -> Tensor | None:
        """Return the mean of the window, within its scope."""
        if "sum" not in state:
            return None
        mean = (state["sum"] / min(int(state["seen"]), self.window)).to(current.dtype)
        if self.scope == "all":
            return mean
        head = info.layout.classifier().to(current.device)
        return torch.where(head if self.scope == "classifier" else ~head, mean, current)


@dataclass(frozen=True, repr=False)
class Ema(ModelAverage):
    """``ema <- gamma ema + (1 - gamma) w``, started at the first model."""

    gamma: Scalar = 0.9

    key = "ema"

    def __post_init__(self) -> None:
        scalar("ema", "gamma", self.gamma, high=1)

    def update(
        self, state: AverageState, info: RunInfo, t: int, before: Tensor, after: Tensor
    ) -> None:
        """Move the average towards the new model."""
        gamma = at(self.gamma, t)
        state["ema"] = gamma * state["ema"] + (1 - gamma) * after if "ema" in state else after

    def params(self, state: AverageState, info: RunInfo, current: Tensor) -> Tensor | None:
        return state.get("ema")


def params_of_reply(reply: Reply) -> Tensor:
    """Return the client's own parameters after local training."""
    assert reply.client_params is not None, "the job does not return clients' own models"
    return reply.client_params.params


@dataclass(frozen=True, repr=False)
class ActiveClients(ModelAverage):
    """The plain mean of the round's client models, each after its last local step."""

    key = "active_clients"
    needs_replies = needs_client_models = True

    def on_reply(
        self, state: AverageState, client_state: AverageState, info: RunInfo, reply: Reply
    ) -> None:
        seen = int(state.get("count", 0))
        model = params_of_reply(reply)
        state["mean"] = torch.lerp(state["mean"], model, 1 / (seen + 1)) if seen else model
        state["count"] = torch.tensor(seen + 1)

    def update(
        self, state: AverageState, info: RunInfo, t: int, before: Tensor, after: Tensor
    ) -> None:
        """Start a new mean in the next round."""
        state["count"] = torch.tensor(0)

    def params(self, state: AverageState, info: RunInfo, current: Tensor) -> Tensor | None:
        return state.get("mean")


@dataclass(frozen=True, repr=False)
class AllClients(ModelAverage):
    """The plain mean over all clients of each one's last model.

    Clients that have not trained yet count with the first model. A client's model is that after its
    last local step, even if the method sends something else back. It is stored with the client's
    state, within the same memory budget.
    """

    key = "all_clients"
    needs_replies = needs_client_models = True
    client_vectors = 1

    def init(self, info: RunInfo, params: Tensor) -> AverageState:
        """Start with the first model for every client."""
        return {"first": params, "mean": params}

    def on_reply(
        self, state: AverageState, client_state: AverageState, info: RunInfo, reply: Reply
    ) -> None:
        """Replace a client's old model by its new one."""
        model = params_of_reply(reply)
        state["mean"] = (
            state["mean"] + (model - client_state.get("model", state["first"])) / info.population
        )
        client_state["model"] = model

    def params(self, state: AverageState, info: RunInfo, current: Tensor) -> Tensor | None:
        return state["mean"]
