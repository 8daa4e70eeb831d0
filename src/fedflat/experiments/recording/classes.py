"""The accuracy of the global model on each class of the test set."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.evaluate import outputs
from fedflat.data.examples import arguments
from fedflat.errors import SettingError
from fedflat.experiments.callbacks import RecordedValues
from fedflat.experiments.recording.recorder import Metric, RoundView
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
        """The accuracies, if the round is evaluated."""
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
