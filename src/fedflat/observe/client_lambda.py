"""How sharp each client's model is on the client's own data: the largest eigenvalue of its Hessian there.

Caldarola et al., Improving Generalization in Federated Learning by Seeking Flat Minima, ECCV 2022, Figure 4. The model
is the one at the end of the client's walk, also where the method sends something else back. Watched on the clients of
the round, whenever the global model is evaluated.
"""

from __future__ import annotations

import math

from fedflat.engine.flat import Model
from fedflat.engine.mail import Mail, Reply, Sheaf
from fedflat.errors import RunError
from fedflat.observe.watcher import Sight, Watcher, refuse_elsewhere
from fedflat.running.listening import Seen
from fedflat.running.prepare import Ready
from fedflat.server.piece import Stepped

NAME = "client_lambda"


class ClientLambda(Watcher):
    """The eigenvalue for each client; NaN where Lanczos found none."""

    name = NAME
    looks = True

    def check(self, ready: Ready) -> None:
        """Clients' data must be here."""
        refuse_elsewhere(self, ready)

    def cost(self, ready: Ready) -> str:
        """Many gradients."""
        from fedflat.flatness.spectrum import steps_of

        return (
            f"expensive: every evaluation, at least {steps_of(1) + 1} Hessian products over the data of each of the "
            "round's clients, each as costly as two gradients"
        )

    def hear(self, s: Sight, mail: Mail, reply: Reply | Sheaf) -> None:
        """Measure at once: models are not kept."""
        if not s.due:
            return
        for one in reply if isinstance(reply, Sheaf) else (reply,):
            assert one.own is not None
            s.memo.setdefault(NAME, {})[str(one.client)] = sharpest(s.ready, one.client, one.own)

    def see(self, s: Sight, new: Stepped) -> Seen:
        """What was measured."""
        return {NAME: s.memo[NAME]} if NAME in s.memo else {}


def sharpest(ready: Ready, client: int, model: Model) -> float:
    """The largest eigenvalue of a model on a client's data."""
    from fedflat.flatness.hessian import Hessian
    from fedflat.flatness.spectrum import eigenvalues

    try:
        hessian = Hessian(ready.learner, model, ready.fed.data(client))
        return float(eigenvalues(hessian, 1, seed=ready.exp.seed).values[0])
    except RunError:
        return math.nan
