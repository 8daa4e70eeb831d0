"""The distance between the stale perturbation of FedGloSS and the true one, from methods that
measure it.

    delta_eps = rho * || unit(g_last) - unit(g) ||

g_last is last round's pseudo-gradient, along which the server climbs; g is the one that this
round's clients return from the unperturbed model, in an exchange that is made for it and forgotten.
It lies between 0 and 2 rho.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedflat.experiments.callbacks import RecordedValues
from fedflat.experiments.recording.recorder import Metric, RoundView
from fedflat.experiments.run_setup import RunSetup
from fedflat.registry.specs import register
from fedflat.server.step import StepResult

NOTE = "delta_eps"
"""The key under which the method writes it."""


@register("metric", "delta_eps")
@dataclass(frozen=True, repr=False)
class DeltaEps(Metric):
    """Error of FedGloSS's stale perturbation, as measured by the method in every round.

    rho times the distance between the unit vectors of last round's pseudo-gradient, along which the
    server perturbs the model, and of the one that this round's clients return from the unperturbed
    model: 0 to 2 rho. Only ``fedgloss(delta_eps=True)`` measures it, with one more exchange per
    round, which changes nothing else.
    """

    title = "Error of the stale perturbation"
    note = (
        "The distance, from 0 to twice rho, between the server's perturbation, along last round's "
        "pseudo-gradient, and "
        "the one along the pseudo-gradient that this round's clients return from the unperturbed "
        "model."
    )

    def cost(self, setup: RunSetup) -> str:
        measured = any(getattr(piece, "measure", False) for piece in setup.exp.server_pieces())
        return (
            "nothing, the method measures it"
            if measured
            else "nothing, the method does not measure it"
        )

    def on_round_end(self, s: RoundView, new: StepResult) -> RecordedValues:
        return {self.key: new.metrics[NOTE]} if NOTE in new.metrics else {}
