"""A plain FedAvg round runs only the code that a star needs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pytest

import fedflat
from experiments.small import experiment
from fedflat.execution.in_process import InProcess
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import PreparedRun, prepare
from fedflat.experiments.progress import Progress
from fedflat.experiments.train import train
from fedflat.simulation.attacks.attack import Attack

HOME = Path(fedflat.__file__).parent


@dataclass(frozen=True, repr=False)
class Observer(Attack):
    """Sees what clients are sent, and does nothing."""

    key = "observer"
    observes_broadcasts = True


SPECIAL = {
    "experiments/chain_router.py": {"topology": "chains(cut=1)"},
    "experiments/chain_exchange.py": {"topology": "chains(cut=1)"},
    "experiments/async_exchange.py": {"topology": "asynchronous(buffer=2)"},
    "experiments/timing.py": {"clock": "devices(speed=lognormal(50, 1))"},
    "simulation/clock.py": {"clock": "devices(speed=lognormal(50, 1))"},
}
"""Modules that a plain round does not enter, and settings with which it does."""
MODULES = 48
"""The most modules that a plain round may enter."""
ABSENT = ("experiments/attack_observation.py", "experiments/recording/", "simulation/")
"""Other modules and packages that it does not enter."""


def entered(exp: Experiment | PreparedRun) -> set[str]:
    """The modules whose functions are called in the second round of a run, with its evaluation."""
    found: set[str] = set()

    def profile(frame: FrameType, event: str, arg: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(HOME):
            found.add(path.relative_to(HOME).as_posix())

    def on_progress(progress: Progress) -> None:
        sys.setprofile(profile if progress.round == 1 else None)

    try:
        train(exp, executor=InProcess(threads=1), on_progress=on_progress)
    finally:
        sys.setprofile(None)
    return found


def test_a_plain_round_enters_no_special_module() -> None:
    found = entered(experiment("fedavg", rounds=2))
    assert {"experiments/exchange.py", "experiments/replies.py"} <= found
    assert [module for module in sorted(found) if module.startswith((*SPECIAL, *ABSENT))] == []
    assert len(found) <= MODULES


@pytest.mark.parametrize("module", SPECIAL)
def test_a_special_round_does(module: str) -> None:
    """Otherwise the test above would prove nothing."""
    assert module in entered(experiment("fedavg", rounds=2, **SPECIAL[module]))


def test_an_attack_that_observes_is_shown_broadcasts() -> None:
    prepared = prepare(experiment("fedavg", rounds=2))
    object.__setattr__(prepared.exp, "attack", Observer())  # unregistered, so without a text
    assert "experiments/attack_observation.py" in entered(prepared)
