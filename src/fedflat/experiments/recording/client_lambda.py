"""The sharpness of each client's model on the client's own data: the largest Hessian eigenvalue.

Caldarola et al., Improving Generalization in Federated Learning by Seeking Flat Minima, ECCV 2022,
Figure 4. The model is the one at the end of local training, also where the method returns something
else. Measured on the clients of the round, whenever the global model is evaluated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Reply, ReplyBatch, single_replies
from fedflat.errors import RunError, number
from fedflat.experiments.callbacks import RecordedValues
from fedflat.experiments.recording.recorder import (
    LINE_AND_HEAT_MAP,
    Metric,
    RoundView,
    refuse_elsewhere,
)
from fedflat.experiments.run_setup import RunSetup
from fedflat.registry.specs import register
from fedflat.server.step import StepResult


@register("metric", "client_lambda")
@dataclass(frozen=True, repr=False)
class ClientLambda(Metric):
    """The ``k``-th largest Hessian eigenvalue of each client's model on its own data; NaN where
    Lanczos found none.

    The model is the one at the end of local training. Measured for the clients of the round, in
    evaluated rounds.
    """

    k: int = 1

    needs_models = True
    entries, drawing = "client", LINE_AND_HEAT_MAP

    def __post_init__(self) -> None:
        number("client_lambda", "k", self.k, low=1, high=100, whole=True)

    @property
    def labels(self) -> dict[str, str]:
        first = "The largest" if self.k == 1 else f"The {self.k}-th largest"
        note = (
            f"{first} Hessian eigenvalue of each client's model on its own data. A curve shows "
            "the mean over the clients of the round, a heat map each client."
        )
        return {**super().labels, "title": f"λ{_subscript(self.k)} at the clients", "note": note}

    def check(self, setup: RunSetup) -> None:
        """The clients' data must be on this machine."""
        refuse_elsewhere(self, setup)

    def cost(self, setup: RunSetup) -> str:
        from fedflat.flatness.spectrum import steps_of

        return (
            f"expensive: every evaluation, at least {steps_of(self.k) + 1} Hessian products over "
            "the data of each "
            "client of the round, each as costly as two gradients"
        )

    def on_reply(self, s: RoundView, broadcast: Broadcast, reply: Reply | ReplyBatch) -> None:
        """Measure at once: models are not kept."""
        if not s.due:
            return
        for one in single_replies(reply):
            assert one.client_params is not None
            s.scratch.setdefault(self.key, {})[str(one.client)] = eigenvalue(
                s.setup, one.client, one.client_params, self.k
            )

    def on_round_end(self, s: RoundView, new: StepResult) -> RecordedValues:
        return {self.key: s.scratch[self.key]} if self.key in s.scratch else {}


def _subscript(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def eigenvalue(setup: RunSetup, client: int, model: Model, k: int = 1) -> float:
    """The ``k``-th largest Hessian eigenvalue of a model on a client's data."""
    from fedflat.flatness.hessian import Hessian
    from fedflat.flatness.spectrum import eigenvalues

    try:
        hessian = Hessian(setup.job.learner, model, setup.fed.data(client))
        return float(eigenvalues(hessian, k, seed=setup.exp.seed).values[k - 1])
    except RunError:
        return math.nan
