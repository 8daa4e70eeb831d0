"""What our servers ask of clients.

train      walk as the method says
tune       plain steps of the last layer, nothing else: what the personalised protocol ends with
gradient   the gradient over all the client's data, no walk
evaluate   the scores of the model on what the client keeps for testing
describe   a tensor computed from the client's data, and perhaps from the model, by a describer
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from fedflat.client.gradient_transforms import Only
from fedflat.client.learner import Learner
from fedflat.client.piece import Piece
from fedflat.client.training import ClientJob, ClientWork, Outcome
from fedflat.core.instruction import Instruction
from fedflat.core.seeds import derive
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.errors import SettingError
from fedflat.registry.specs import TextSpec, register


class LocalWork(Protocol):
    """A client, or a stack of clients, that can walk."""

    def local_train(self) -> Any:
        """Walk from what was sent."""
        ...

    def full_gradient(self) -> Any:
        """The gradient over all data where the model stands."""
        ...


def local_work(pieces: Sequence[Piece], examples: int, samples: int) -> int:
    """Gradients of single examples in a walk: as many of each as the pieces ask for, and those over
    all the data."""
    return samples * prod(piece.oracle_calls for piece in pieces) + examples * sum(
        piece.full_gradients for piece in pieces
    )


@register("ask", "train")
@dataclass(frozen=True, repr=False)
class Train(Instruction):
    """Walk as the method says; ``tests`` says how well the client's own model then does on its own
    part."""

    tests: bool = False

    trains = commits = stackable = True
    upload_vectors = 1

    def work(self, job: ClientJob, examples: int, samples: int) -> int:
        """That of a walk."""
        return local_work(job.pieces, examples, samples)

    def run(self, client: LocalWork) -> Any:
        """Walk."""
        return client.local_train()


@register("ask", "tune")
@dataclass(frozen=True, repr=False)
class FineTune(Instruction):
    """Plain steps of the last layer, nothing else; ``tests`` as in training."""

    tests: bool = False

    commits = stackable = True
    upload_vectors = 1

    def job(self, job: ClientJob) -> ClientJob:
        """The same without the method's pieces."""
        return replace(job, pieces=(Only("classifier"),), returns_models=False)

    def work(self, job: ClientJob, examples: int, samples: int) -> int:
        """That of a walk."""
        return local_work(job.pieces, examples, samples)

    def run(self, client: LocalWork) -> Any:
        """Walk."""
        return client.local_train()


@register("ask", "gradient")
@dataclass(frozen=True, repr=False)
class Gradient(Instruction):
    """The gradient over all the client's data, in place of a walk."""

    stackable = True
    upload_vectors = full_gradients = 1

    def run(self, client: LocalWork) -> Any:
        """Survey."""
        return client.full_gradient()


@register("ask", "evaluate")
@dataclass(frozen=True, repr=False)
class Evaluate(Instruction):
    """The scores of the model on what the client keeps for testing, by name under "evaluate"; no
    vector comes back.

    It is weighted by the examples it was tested on.
    """

    def run(self, client: ClientWork) -> Outcome:
        """Judge the model."""
        held_out = client.data.own_test
        if held_out is None:
            raise SettingError(
                f"client {client.request.client} was asked how well it does on its own test part, but it keeps none. "
                "Say so in the data: split=0.7 trains on 70 % of each client's examples."
            )
        scores = client.scores(held_out)
        found = {name: torch.tensor(value, dtype=torch.float64) for name, value in scores.items()}
        return client.answer("evaluate", found, examples=len(held_out), loss=scores["loss"])


class Describer(TextSpec, ABC):
    """How a client describes itself: a frozen dataclass. Every client is asked once, before round
    0."""

    needs_model: ClassVar[bool] = False
    """Whether a model must be sent along: a fresh one, if it is no `probe`."""
    models: ClassVar[int] = 0
    """How many models its answer is counted as; a part of a model is one."""
    uses_data: ClassVar[bool] = False
    """Whether it needs data that the server itself holds."""
    reveals: ClassVar[str] = "the server learns what it computes of every client's data"
    """What that tells about clients, as a sentence without its end."""
    gives_distribution: ClassVar[bool] = False
    """Whether its numbers are amounts of classes: clients are compared by the shares of them."""
    components: ClassVar[bool] = False
    """Whether clients are compared by the principal components of their tensors."""

    @property
    def probe(self) -> int:
        """For how many epochs the model that is sent is trained on the server's own data before; 0:
        it is fresh."""
        return 0

    def check(self, fed: Federation, learner: Learner, public: ClientData | None) -> None:
        """Refuse data that cannot be described so; ``public`` are the server's own."""

    def job(self, job: ClientJob) -> ClientJob:
        """The client's job as it wants it."""
        return job

    @abstractmethod
    def describe(self, client: ClientWork) -> Tensor:
        """A tensor for the server, and for everybody it is shown to."""

    def samples(self, client: ClientWork) -> int:
        """How many examples the client trains on for it, epochs counted."""
        return 0

    def reading(
        self, learner: Learner, public: ClientData | None, seed: int
    ) -> Callable[[Tensor], Tensor]:
        """What the server makes of a tensor as it comes, and keeps in its place."""
        return lambda sent: sent


Descriptions = Mapping[Describer, Sequence[Tensor]]
"""What every client has said of itself, client by client, to each describer."""


@register("describer", "label_counts")
@dataclass(frozen=True, repr=False)
class LabelCounts(Describer):
    """How many examples of each class a client trains on. The server learns just that: it is not
    private."""

    reveals = (
        "the server learns how many examples of each class every client holds, which is not private"
    )
    gives_distribution = True

    def check(self, fed: Federation, learner: Learner, public: ClientData | None) -> None:
        """Refuse examples without a class each."""
        if not fed.test.examples.labelled:
            raise SettingError(
                "label_counts: these data have no class for each example, so clients cannot be described by their "
                "labels. Use another description, such as psi='classifier'."
            )

    def describe(self, client: ClientWork) -> Tensor:
        """Count."""
        return (
            torch.bincount(client.data.labels, minlength=client.data.examples.classes)
            .double()
            .cpu()
        )


@register("ask", "describe")
@dataclass(frozen=True, repr=False)
class Describe(Instruction):
    """A tensor computed by a describer, under "describe" and "vector"; its draws are apart from
    those of rounds."""

    by: Describer

    def __post_init__(self) -> None:
        if not isinstance(self.by, Describer):
            raise SettingError(
                f"describe: by must be a describer such as label_counts(), found {self.by!r}."
            )

    @property
    def needs_model(self) -> bool:
        """As the describer says."""
        return self.by.needs_model

    def job(self, job: ClientJob) -> ClientJob:
        """As the describer wants it."""
        return self.by.job(replace(job, seed=derive(job.seed, "describe")))

    def run(self, client: ClientWork) -> Outcome:
        """Let the describer look."""
        found, samples = {"vector": self.by.describe(client)}, self.by.samples(client)
        return client.answer("describe", found, examples=len(client.data), samples=samples)
