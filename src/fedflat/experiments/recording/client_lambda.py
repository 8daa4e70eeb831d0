"""How sharp each client's model is on the client's own data: the largest eigenvalue of its Hessian
there.

Caldarola et al., Improving Generalization in Federated Learning by Seeking Flat Minima, ECCV 2022,
Figure 4. The model is the one at the end of the client's walk, also where the method sends
something else back. Watched on the clients of the round, whenever the global model is evaluated.
"""

from __future__ import annotations

import math

from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Reply, ReplyBatch
from fedflat.errors import RunError
from fedflat.experiments.callbacks import Seen
from fedflat.experiments.prepare import PreparedRun
from fedflat.experiments.recording.recorder import MetricRecorder, RoundRecorder, refuse_elsewhere
from fedflat.server.piece import StepResult

NAME = "client_lambda"


class ClientLambda(MetricRecorder):
    """The eigenvalue for each client; NaN where Lanczos found none."""

    name = NAME
    needs_client_models = True

    def check(self, prepared: PreparedRun) -> None:
        """Clients' data must be here."""
        refuse_elsewhere(self, prepared)

    def cost(self, prepared: PreparedRun) -> str:
        """Many gradients."""
        from fedflat.flatness.spectrum import steps_of

        return (
            f"expensive: every evaluation, at least {steps_of(1) + 1} Hessian products over the data of each of the "
            "round's clients, each as costly as two gradients"
        )

    def on_reply(self, s: RoundRecorder, broadcast: Broadcast, reply: Reply | ReplyBatch) -> None:
        """Measure at once: models are not kept."""
        if not s.due:
            return
        for one in reply if isinstance(reply, ReplyBatch) else (reply,):
            assert one.client_params is not None
            s.memo.setdefault(NAME, {})[str(one.client)] = sharpest(
                s.prepared, one.client, one.client_params
            )

    def on_round_end(self, s: RoundRecorder, new: StepResult) -> Seen:
        """What was measured."""
        return {NAME: s.memo[NAME]} if NAME in s.memo else {}


def sharpest(prepared: PreparedRun, client: int, model: Model) -> float:
    """The largest eigenvalue of a model on a client's data."""
    from fedflat.flatness.hessian import Hessian
    from fedflat.flatness.spectrum import eigenvalues

    try:
        hessian = Hessian(prepared.learner, model, prepared.fed.data(client))
        return float(eigenvalues(hessian, 1, seed=prepared.exp.seed).values[0])
    except RunError:
        return math.nan
