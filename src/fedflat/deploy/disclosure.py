"""What leaves a client in a deployed run, as the server and each client print it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedflat.composition.disclosure import BEFORE, DESCRIPTION, NUMBERS, Disclosed, disclosure_text
from fedflat.experiments.experiment import Experiment

JOINED = Disclosed(
    BEFORE,
    DESCRIPTION,
    "number of examples, their shapes, names of classes and columns, when it is online",
)
TESTS = Disclosed(
    "evaluations", NUMBERS, "scores on the client's own test examples, if it keeps some"
)


def deployment_text(exp: Experiment, recorded: Sequence[str] = ()) -> str:
    """What leaves each client, as lines of text.

    Args:
        exp: The run.
        recorded: Metrics that clients compute for ``--record``.
    """
    further = [JOINED, TESTS]
    if recorded:
        further.append(Disclosed("every round", NUMBERS, f"recorded: {', '.join(recorded)}"))
    method = replace(exp.method, topology=exp.topology)
    return disclosure_text(method, describers=exp.init.describers, further=further)
