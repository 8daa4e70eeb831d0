"""The global model on each class of the test set, and its scores and outputs on clients' data.

Caldarola et al., Improving Generalization in Federated Learning by Seeking Flat Minima, ECCV 2022,
Figures 3 and 7. A mean over clients hides that a model may be right at one client and wrong at all
others. The norm of the outputs is the mean of ``||f(x)||``, f the logits, whenever the model is
evaluated, on the clients of the round or on all clients.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.evaluate import headline, outputs
from fedflat.client.learner import Learner
from fedflat.data.examples import ClientData, arguments
from fedflat.errors import SettingError, flag
from fedflat.experiments.callbacks import RecordedValues
from fedflat.experiments.recording.recorder import (
    LINE_AND_HEAT_MAP,
    Metric,
    RoundView,
    refuse_elsewhere,
    refuse_many_clients,
)
from fedflat.experiments.run_setup import RunSetup
from fedflat.registry.specs import register
from fedflat.server.step import StepResult


@register("metric", "classes")
@dataclass(frozen=True, repr=False)
class Classes(Metric):
    """Accuracy on each class of the test set; NaN for a class without test examples.

    Measured in rounds that are evaluated.
    """

    title = "Accuracy of each class"
    note = "Stripes are classes that are learnt in one round and forgotten in the next."
    entries, unit = "class", "%"

    def cost(self, setup: RunSetup) -> str:
        return "one more pass over the test set every evaluation"

    def check(self, setup: RunSetup) -> None:
        """The task must be a classification, and the model must return a score per class."""
        if not setup.exp.task.classifies:
            raise SettingError(
                f"record: {setup.exp.task} has no class per example. Remove {self.key!r} from "
                "--record."
            )
        batch = setup.fed.test.batch(
            torch.arange(min(2, len(setup.fed.test))), setup.job.learner.dtype
        )
        output = setup.job.learner.flat.forward(*arguments(batch.inputs))
        if output.dim() != 2 or output.shape[1] < setup.fed.classes:
            raise SettingError(
                f"record: {self.key!r} needs a score for each of {setup.fed.classes} classes, "
                f"and the model's output has the shape {tuple(output.shape)}. Remove it from "
                "--record."
            )

    def on_round_end(self, s: RoundView, new: StepResult) -> RecordedValues:
        if not s.due:
            return {}
        s.setup.job.learner.load(new.model)
        return {self.key: accuracies(s.setup).tolist()}


def accuracies(setup: RunSetup) -> Tensor:
    """The accuracies of the module with its current parameters."""
    learner, data, classes = setup.job.learner, setup.fed.test, setup.fed.classes
    right, all_ = torch.zeros(classes, dtype=torch.long), torch.zeros(classes, dtype=torch.long)
    for batch, output in outputs(learner, data):
        hit = output.argmax(1) == batch.targets
        right += torch.bincount(batch.targets[hit].cpu(), minlength=classes)
        all_ += torch.bincount(batch.targets.cpu(), minlength=classes)
    return right.double() / all_


@register("metric", "client_scores")
@dataclass(frozen=True, repr=False)
class ClientScores(Metric):
    """Headline score of the global model on the training data of every client.

    Measured in rounds that are evaluated, for clients outside the round too.
    """

    title = "Score of the global model at every client"
    note = (
        "The headline score on each client's training data. Short stripes are clients that are "
        "learnt in one round and forgotten in the next."
    )
    entries, unit, drawing = "client", "%", "heat map"

    def check(self, setup: RunSetup) -> None:
        """The data must be on this machine, and the headline a share that needs no gallery."""
        refuse_many_clients(self, setup)
        task = setup.exp.task
        if task.reference or not task.headline.share:
            raise SettingError(
                f"record: {self.key} needs a score between 0 and 1 that a client's data alone "
                f"define, and {task} has {task.headline.label}. Remove it from --record."
            )

    def cost(self, setup: RunSetup) -> str:
        """A pass over all training data."""
        return "one forward pass over the data of all clients every evaluation"

    def on_round_end(self, s: RoundView, new: StepResult) -> RecordedValues:
        if not s.due:
            return {}
        learner, fed = s.setup.job.learner, s.setup.fed
        learner.load(new.model)
        return {self.key: {str(k): headline(learner, fed.data(k)) for k in range(fed.population)}}


@register("metric", "features")
@dataclass(frozen=True, repr=False)
class Features(Metric):
    """Mean norm of the global model's outputs on each client's data.

    Measured in rounds that are evaluated, for the clients of the round or, with ``everyone``, for
    all clients.
    """

    everyone: bool = False

    title = "Norm of the outputs"
    entries, drawing = "client", LINE_AND_HEAT_MAP

    def __post_init__(self) -> None:
        flag("features", "everyone", self.everyone)

    @property
    def labels(self) -> dict[str, str]:
        """Which clients it is measured on."""
        clients = "all clients" if self.everyone else "the clients of the round"
        note = (
            "The mean norm of the model's outputs on a client's examples. A curve shows the mean "
            f"over {clients}, a heat map each client."
        )
        return {**super().labels, "note": note}

    def check(self, setup: RunSetup) -> None:
        """The clients' data must be on this machine."""
        (refuse_many_clients if self.everyone else refuse_elsewhere)(self, setup)

    def cost(self, setup: RunSetup) -> str:
        clients = "all clients" if self.everyone else "the round's clients"
        return f"one forward pass over the data of {clients} every evaluation"

    def on_round_end(self, s: RoundView, new: StepResult) -> RecordedValues:
        if not s.due:
            return {}
        learner, fed = s.setup.job.learner, s.setup.fed
        learner.load(new.model)
        clients = range(fed.population) if self.everyone else sorted(set(s.cohort))
        return {self.key: {str(k): mean_norm(learner, fed.data(k)) for k in clients}}


def mean_norm(learner: Learner, data: ClientData) -> float:
    """The mean norm of the outputs of the module with its current parameters."""
    total = 0.0
    for batch, output in outputs(learner, data):
        total += float(
            torch.linalg.vector_norm(output.reshape(len(batch), -1).double(), dim=1).sum()
        )
    return total / len(data)
