"""How far the stale perturbation of FedGloSS is from the true one, from methods that measure it.

    delta_eps = rho * || unit(g_last) - unit(g) ||

g_last is last round's pseudo-gradient, along which the server climbs; g is the one that this
round's clients return from the unperturbed model, in an exchange that is made for it and forgotten.
It lies between 0 and 2 rho.
"""

from __future__ import annotations

from fedflat.experiments.callbacks import Seen
from fedflat.experiments.prepare import PreparedRun
from fedflat.experiments.recording.recorder import MetricRecorder, RoundRecorder
from fedflat.server.piece import StepResult

NAME = "delta_eps"


class DeltaEps(MetricRecorder):
    """Taken over from the method in every round, not only when it is evaluated."""

    name = NAME

    def cost(self, prepared: PreparedRun) -> str:
        """None of its own."""
        measured = any(getattr(piece, "measure", False) for piece in prepared.exp.method.server)
        return (
            "nothing, the method measures it"
            if measured
            else "nothing, for the method does not measure it"
        )

    def on_round_end(self, s: RoundRecorder, new: StepResult) -> Seen:
        """What the method has noted."""
        return {NAME: new.metrics[NAME]} if NAME in new.metrics else {}
