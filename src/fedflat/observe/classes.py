"""What the global model knows of each class, and forgets: its accuracies on the test set, class by class."""

from __future__ import annotations

import torch
from torch import Tensor

from fedflat.client.judge import outputs
from fedflat.data.batch import arguments
from fedflat.errors import SettingError
from fedflat.observe.watcher import Sight, Watcher
from fedflat.running.evaluate import load
from fedflat.running.listening import Seen
from fedflat.running.prepare import Ready
from fedflat.server.piece import Stepped


class Classes(Watcher):
    """A list with the accuracy on each class; NaN for one that is not in the test set."""

    name = "classes"

    def cost(self, ready: Ready) -> str:
        """A pass over the test set."""
        return "one more pass over the test set every evaluation"

    def check(self, ready: Ready) -> None:
        """It must be a classification, by a module that gives scores of classes."""
        if not ready.exp.task.classifies:
            raise SettingError(f"watch: {ready.exp.task} has no class for each example. Leave 'classes' out.")
        batch = ready.fed.test.batch(torch.arange(min(2, len(ready.fed.test))), ready.learner.dtype)
        output = ready.learner.flat.forward(*arguments(batch.inputs))
        if output.dim() != 2 or output.shape[1] < ready.fed.classes:
            raise SettingError(
                f"watch: there are no classes to watch, since the model's output has the shape {tuple(output.shape)} "
                f"for {ready.fed.classes} classes. Leave 'classes' out."
            )

    def see(self, s: Sight, new: Stepped) -> Seen:
        """The accuracies, if the round is evaluated."""
        if not s.due:
            return {}
        load(s.ready.learner, new.model)
        return {"classes": accuracies(s.ready).tolist()}


def accuracies(ready: Ready) -> Tensor:
    """The accuracies of the module, where it stands."""
    learner, data, classes = ready.learner, ready.fed.test, ready.fed.classes
    right, all_ = torch.zeros(classes, dtype=torch.long), torch.zeros(classes, dtype=torch.long)
    for batch, output in outputs(learner, data):
        hit = output.argmax(1) == batch.targets
        right += torch.bincount(batch.targets[hit].cpu(), minlength=classes)
        all_ += torch.bincount(batch.targets.cpu(), minlength=classes)
    return right.double() / all_
