"""The score of the global model on the data of every client, sampled or not.

Caldarola et al., Improving Generalization in Federated Learning by Seeking Flat Minima, ECCV 2022,
Figure 3. A mean over clients hides that a model may be right at one client and wrong at all others.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedflat.client.evaluate import headline
from fedflat.errors import SettingError
from fedflat.experiments.callbacks import RecordedValues
from fedflat.experiments.recording.recorder import Metric, RoundView, refuse_many_clients
from fedflat.experiments.run_setup import RunSetup
from fedflat.registry.specs import register
from fedflat.server.step import StepResult


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
        """The scores, if the round is evaluated."""
        if not s.due:
            return {}
        learner, fed = s.setup.job.learner, s.setup.fed
        learner.load(new.model)
        return {self.key: {str(k): headline(learner, fed.data(k)) for k in range(fed.population)}}
