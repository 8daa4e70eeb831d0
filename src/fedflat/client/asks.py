"""What our servers ask of clients.

    train      walk as the method says
    tune       plain steps of the last layer, nothing else: what the personalised protocol ends with
    gradient   the gradient over all the client's data, no walk
    evaluate   the scores of the model on what the client keeps for testing
    describe   a vector computed from the client's data, and perhaps from the model, by a describer
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from fedflat.client.drift import Only
from fedflat.client.piece import Piece
from fedflat.client.visit import ClientJob, Done, OneClient
from fedflat.engine.ask import Ask
from fedflat.errors import SettingError
from fedflat.language.spelling import Spelled, register


class Walking(Protocol):
    """A client, or a stack of clients, that can walk."""

    def walk(self) -> Any:
        """Walk from what was sent."""
        ...

    def survey(self) -> Any:
        """The gradient over all data where the model stands."""
        ...


def walk_work(pieces: Sequence[Piece], examples: int, samples: int) -> int:
    """Gradients of single examples in a walk: as many of each as the pieces ask for, and those over all the data."""
    return samples * prod(piece.asks for piece in pieces) + examples * sum(piece.surveys for piece in pieces)


@register("ask", "train")
@dataclass(frozen=True, repr=False)
class Train(Ask):
    """Walk as the method says; ``tests`` says how well the client's own model then does on its own part."""

    tests: bool = False

    trains = commits = stacks = True
    up = 1

    def work(self, job: ClientJob, examples: int, samples: int) -> int:
        """That of a walk."""
        return walk_work(job.pieces, examples, samples)

    def do(self, client: Walking) -> Any:
        """Walk."""
        return client.walk()


@register("ask", "tune")
@dataclass(frozen=True, repr=False)
class Tune(Ask):
    """Plain steps of the last layer, nothing else; ``tests`` as in training."""

    tests: bool = False

    commits = stacks = True
    up = 1

    def job(self, job: ClientJob) -> ClientJob:
        """The same without the method's pieces."""
        return replace(job, pieces=(Only("classifier"),), shows=False)

    def work(self, job: ClientJob, examples: int, samples: int) -> int:
        """That of a walk."""
        return walk_work(job.pieces, examples, samples)

    def do(self, client: Walking) -> Any:
        """Walk."""
        return client.walk()


@register("ask", "gradient")
@dataclass(frozen=True, repr=False)
class Gradient(Ask):
    """The gradient over all the client's data, in place of a walk."""

    stacks = True
    up = surveys = 1

    def do(self, client: Walking) -> Any:
        """Survey."""
        return client.survey()


@register("ask", "evaluate")
@dataclass(frozen=True, repr=False)
class Evaluate(Ask):
    """The scores of the model on what the client keeps for testing, by name under "evaluate"; no vector comes back.

    It is weighted by the examples it was tested on.
    """

    def do(self, client: OneClient) -> Done:
        """Judge the model."""
        held_out = client.data.own_test
        if held_out is None:
            raise SettingError(
                f"client {client.letter.client} was asked how well it does on its own test part, but it keeps none. "
                "Say so in the data: split=0.7 trains on 70 % of each client's examples."
            )
        scores = client.scores(held_out)
        found = {name: torch.tensor(value, dtype=torch.float64) for name, value in scores.items()}
        return client.answer("evaluate", found, examples=len(held_out), loss=scores["loss"])


class Describer(Spelled, ABC):
    """How a client describes itself in a few numbers."""

    needs_model: ClassVar[bool] = False
    """Whether a model must be sent along."""

    @abstractmethod
    def describe(self, client: OneClient) -> Tensor:
        """A vector for the server, and for everybody it is shown to."""


@register("describer", "label_counts")
@dataclass(frozen=True, repr=False)
class LabelCounts(Describer):
    """How many examples of each class a client trains on. The server learns just that."""

    def describe(self, client: OneClient) -> Tensor:
        """Count."""
        return torch.bincount(client.data.labels, minlength=client.data.examples.classes).double()


@register("ask", "describe")
@dataclass(frozen=True, repr=False)
class Describe(Ask):
    """A vector computed by a describer, under "describe" and "vector"."""

    by: Describer

    def __post_init__(self) -> None:
        if not isinstance(self.by, Describer):
            raise SettingError(f"describe: by must be a describer such as label_counts(), found {self.by!r}.")

    @property
    def needs_model(self) -> bool:
        """As the describer says."""
        return self.by.needs_model

    def do(self, client: OneClient) -> Done:
        """Let the describer look."""
        return client.answer("describe", {"vector": self.by.describe(client)}, examples=len(client.data))
