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
from fedflat.experiments.prepare import prepare
from fedflat.experiments.progress import Progress
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.train import train
from fedflat.simulation.attacks.attack import Attack

HOME = Path(fedflat.__file__).parent


@dataclass(frozen=True, repr=False)
class Observer(Attack):
    """Sees what clients are sent, and does nothing."""

    key = "observer"
    observes_broadcasts = True


MODULES = {
    "client": "evaluate learner local traced_gradients training",
    "core": "flat instruction messages seeds",
    "data": "batch examples federation",
    "execution": "client_pool client_states in_process interrupt request_batch scheduler",
    "experiments": "evaluator progress reported_models run_folder/run_folder train",
    "server": "client_selection exchange ledger piece replies",
    "tasks": "classification task",
    "topologies": "population star topology",
}
"""All modules that a plain round enters, with its evaluation and its commit."""
SPECIAL = {
    "topologies/chain_router.py": {"topology": "chains(cut=1)"},
    "topologies/chain_exchange.py": {"topology": "chains(cut=1)"},
    "topologies/async_exchange.py": {"topology": "asynchronous(buffer=2)"},
    "simulation/timing.py": {"clock": "devices(speed=lognormal(50, 1))"},
    "simulation/clock.py": {"clock": "devices(speed=lognormal(50, 1))"},
    "server/averaging.py": {"method": "fedavg + ema(gamma=0.5)"},
    "client/piece.py": {"method": "fedprox(mu=0.1)"},
}
"""Modules that a plain round does not enter, and settings with which it does."""


def entered(exp: Experiment | RunSetup) -> set[str]:
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


def test_a_plain_round_enters_only_what_a_star_needs() -> None:
    """No code of chains, clocks, asynchronous servers, attacks, callbacks or averages runs."""
    needed = {
        f"{package}/{name}.py" for package, names in MODULES.items() for name in names.split()
    }
    assert entered(experiment("fedavg", rounds=2)) == needed
    assert needed.isdisjoint(SPECIAL)


@pytest.mark.parametrize("module", SPECIAL)
def test_a_special_round_enters_more(module: str) -> None:
    """Otherwise the test above would prove nothing."""
    more = {"method": "fedavg", **SPECIAL[module]}
    assert module in entered(experiment(more.pop("method"), rounds=2, **more))


def test_an_attack_that_observes_is_shown_broadcasts() -> None:
    setup = prepare(experiment("fedavg", rounds=2))
    object.__setattr__(setup.exp, "attack", Observer())  # unregistered, so without a text
    assert "simulation/attacks/observation.py" in entered(setup)
