"""Instructions besides `Train`: what else a server can request of a client.

tune       plain steps of the last layer, used by personalized evaluation
gradient   the gradient over all the client's data, without training
evaluate   the scores of the model on the client's own test examples
describe   a tensor that a describer computes from the client's data, perhaps with the model
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedflat.client.gradient_transforms import Only
from fedflat.client.learner import Learner
from fedflat.client.training import ClientJob, ClientWork, Outcome
from fedflat.core.messages import Instruction, LocalWork, Train
from fedflat.core.seeds import derive
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.errors import SettingError
from fedflat.registry.specs import TextSpec, register


@register("instruction", "tune")
@dataclass(frozen=True, repr=False)
class FineTune(Train):
    """Plain steps of the last layer, without the method's pieces. With ``tests`` as in `Train`."""

    trains = False

    def job(self, job: ClientJob) -> ClientJob:
        """Replace the method's pieces by one that trains the classifier only."""
        return replace(job, pieces=(Only("classifier"),), returns_models=False)


@register("instruction", "gradient")
@dataclass(frozen=True, repr=False)
class Gradient(Instruction):
    """The gradient over all the client's data, in place of local training."""

    stackable = True
    upload_vectors = full_gradients = 1

    def run(self, client: LocalWork) -> Any:
        return client.full_gradient()


@register("instruction", "evaluate")
@dataclass(frozen=True, repr=False)
class Evaluate(Instruction):
    """The scores of the model on the client's own test examples.

    The reply has them by name under "evaluate" and carries no model. Its weight is the number of
    test examples.
    """

    def run(self, client: ClientWork) -> Outcome:
        held_out = client.data.own_test
        if held_out is None:
            raise SettingError(
                f"client {client.request.client} has no test examples of its own to evaluate on. "
                "Add a split to the data: split=0.7 trains on 70 % of each client's examples."
            )
        scores = client.scores(held_out)
        found = {name: torch.tensor(value, dtype=torch.float64) for name, value in scores.items()}
        return client.answer("evaluate", found, examples=len(held_out), loss=scores["loss"])


class Describer(TextSpec, ABC):
    """How a client describes itself: a frozen dataclass.

    Every client computes the description once, before round 0.
    """

    needs_model: ClassVar[bool] = False
    """True if a model must be sent with the request. It is untrained unless `probe` is positive."""
    models: ClassVar[int] = 0
    """Number of models that its reply counts as in the traffic; a part of a model is one."""
    uses_data: ClassVar[bool] = False
    """True if it needs data that the server holds."""
    reveals: ClassVar[str] = "the server learns what it computes of every client's data"
    """What the server learns about clients, as a clause without a full stop."""
    gives_distribution: ClassVar[bool] = False
    """True if its numbers are amounts per class. Clients are then compared by the shares of their
    classes."""
    components: ClassVar[bool] = False
    """True if clients are compared by the principal components of their tensors."""

    @property
    def probe(self) -> int:
        """Epochs that the model is trained on the server's data before it is sent; 0 for none."""
        return 0

    def check(self, fed: Federation, learner: Learner, public: ClientData | None) -> None:
        """Raise `SettingError` if the data cannot be described this way.

        ``public`` is the data that the server holds.
        """

    def job(self, job: ClientJob) -> ClientJob:
        """Return the client's job for computing the description."""
        return job

    @abstractmethod
    def describe(self, client: ClientWork) -> Tensor:
        """Compute the tensor to send to the server."""

    def samples(self, client: ClientWork) -> int:
        """Return how many examples the client trains on for it, all epochs counted."""
        return 0

    def server_transform(
        self, learner: Learner, public: ClientData | None, seed: int
    ) -> Callable[[Tensor], Tensor]:
        """Return a function that the server applies to each received tensor before it stores it."""
        return lambda sent: sent


Descriptions = Mapping[Describer, Sequence[Tensor]]
"""Tensors of all clients, in the order of clients, by describer."""


@register("describer", "label_counts")
@dataclass(frozen=True, repr=False)
class LabelCounts(Describer):
    """The number of training examples of each class.

    The server learns these counts, which are not private.
    """

    reveals = (
        "the server learns how many examples of each class every client holds, which is not private"
    )
    gives_distribution = True

    def check(self, fed: Federation, learner: Learner, public: ClientData | None) -> None:
        """Raise `SettingError` if examples have no class."""
        if not fed.test.examples.has_classes:
            raise SettingError(
                "label_counts: these data have no class for each example, so clients cannot be "
                "described by their labels. Use another description, such as psi='classifier'."
            )

    def describe(self, client: ClientWork) -> Tensor:
        return (
            torch.bincount(client.data.labels, minlength=client.data.examples.classes)
            .double()
            .cpu()
        )


@register("instruction", "describe")
@dataclass(frozen=True, repr=False)
class Describe(Instruction):
    """A tensor computed by the describer ``by``, under "describe" and "vector" in the reply.

    Its random numbers are independent of those of the rounds.
    """

    by: Describer

    def __post_init__(self) -> None:
        if not isinstance(self.by, Describer):
            raise SettingError(
                f"describe: by must be a describer such as label_counts(), found {self.by!r}."
            )
        object.__setattr__(self, "needs_model", self.by.needs_model)

    def job(self, job: ClientJob) -> ClientJob:
        return self.by.job(replace(job, seed=derive(job.seed, "describe")))

    def run(self, client: ClientWork) -> Outcome:
        found, samples = {"vector": self.by.describe(client)}, self.by.samples(client)
        return client.answer("describe", found, examples=len(client.data), samples=samples)
