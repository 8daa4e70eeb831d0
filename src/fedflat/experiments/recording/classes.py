"""What the global model knows of each class, and forgets: its accuracies on the test set, class by
class."""

from __future__ import annotations

import torch
from torch import Tensor

from fedflat.client.evaluate import outputs
from fedflat.data.batch import arguments
from fedflat.errors import SettingError
from fedflat.experiments.callbacks import Seen
from fedflat.experiments.evaluation import load
from fedflat.experiments.prepare import PreparedRun
from fedflat.experiments.recording.recorder import MetricRecorder, RoundRecorder
from fedflat.server.piece import StepResult


class Classes(MetricRecorder):
    """A list with the accuracy on each class; NaN for one that is not in the test set."""

    name = "classes"

    def cost(self, prepared: PreparedRun) -> str:
        """A pass over the test set."""
        return "one more pass over the test set every evaluation"

    def check(self, prepared: PreparedRun) -> None:
        """It must be a classification, by a module that gives scores of classes."""
        if not prepared.exp.task.classifies:
            raise SettingError(
                f"watch: {prepared.exp.task} has no class for each example. Leave 'classes' out."
            )
        batch = prepared.fed.test.batch(
            torch.arange(min(2, len(prepared.fed.test))), prepared.learner.dtype
        )
        output = prepared.learner.flat.forward(*arguments(batch.inputs))
        if output.dim() != 2 or output.shape[1] < prepared.fed.classes:
            raise SettingError(
                f"watch: there are no classes to watch, since the model's output has the shape {tuple(output.shape)} "
                f"for {prepared.fed.classes} classes. Leave 'classes' out."
            )

    def on_round_end(self, s: RoundRecorder, new: StepResult) -> Seen:
        """The accuracies, if the round is evaluated."""
        if not s.due:
            return {}
        load(s.prepared.learner, new.model)
        return {"classes": accuracies(s.prepared).tolist()}


def accuracies(prepared: PreparedRun) -> Tensor:
    """The accuracies of the module, where it stands."""
    learner, data, classes = prepared.learner, prepared.fed.test, prepared.fed.classes
    right, all_ = torch.zeros(classes, dtype=torch.long), torch.zeros(classes, dtype=torch.long)
    for batch, output in outputs(learner, data):
        hit = output.argmax(1) == batch.targets
        right += torch.bincount(batch.targets[hit].cpu(), minlength=classes)
        all_ += torch.bincount(batch.targets.cpu(), minlength=classes)
    return right.double() / all_
