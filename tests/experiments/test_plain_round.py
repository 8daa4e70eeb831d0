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
from fedflat.topologies.topology import ROUNDS_AHEAD

HOME = Path(fedflat.__file__).parent
ROUNDS = ROUNDS_AHEAD + 2


@dataclass(frozen=True, repr=False)
class Observer(Attack):
    """Sees what clients are sent, and does nothing."""

    key = "observer"
    observes_broadcasts = True


MODULES = {
    "client/evaluate.py": "outputs and scores of a model on a test set",
    "client/learner.py": "the network and its loss in this process; the gradient of a batch",
    "client/local.py": "epochs, batches and their order in local training",
    "client/training.py": "the work of one client: the steps of local training",
    "core/flat.py": "a module as one vector of parameters, and its gradient",
    "core/messages.py": "instruction, broadcast, reply, and their bytes",
    "core/seeds.py": "random generators by purpose, round and client",
    "data/examples.py": "the examples of a client or a test set, in batches",
    "data/federation.py": "the data of each client and the test sets",
    "execution/in_process.py": "one request after the other; an error becomes a failure",
    "experiments/evaluator.py": "the row of metrics of a round",
    "experiments/progress.py": "the time that is left",
    "experiments/run_folder/run_folder.py": "keeps the row and the checkpoint",
    "experiments/train.py": "the loop over rounds, and the parts of a round",
    "server/client_selection.py": "draws the cohort",
    "server/exchange.py": "sends the broadcast to the cohort and aggregates the replies",
    "server/ledger.py": "bytes, models, examples and seconds so far",
    "server/replies.py": "checks, counts and stages each reply",
    "server/step.py": "the mean of the replies, and the server's step with it",
    "tasks/classification.py": "cross-entropy and accuracy",
    "tasks/task.py": "what tasks have in common: the client's batches",
    "topologies/server_models.py": "the server's models by slot and by name, here one",
    "topologies/topology.py": "draws a cohort of the clients, one client a chain",
}
"""All modules that a plain round enters, with its evaluation and its commit, and what for."""
SPECIAL = {
    "topologies/chain_router.py": {"topology": "chains(cut=1)"},
    "topologies/chain_exchange.py": {"topology": "chains(cut=1)"},
    "topologies/async_exchange.py": {"topology": "asynchronous(buffer=2)"},
    "simulation/timing.py": {"clock": "devices(speed=lognormal(50, 1))"},
    "simulation/clock.py": {"clock": "devices(speed=lognormal(50, 1))"},
    "server/averaging.py": {"method": "fedavg + ema(gamma=0.5)"},
    "client/piece.py": {"method": "fedprox(mu=0.1)"},
    "execution/client_states.py": {"method": "feddyn"},
}
"""Modules that a plain round does not enter, and settings with which it does."""


def entered(exp: Experiment | RunSetup) -> set[str]:
    """The modules whose functions are called after the first round of a run.

    There are so many rounds that the cohorts of the later ones are drawn then.
    """
    found: set[str] = set()

    def profile(frame: FrameType, event: str, arg: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(HOME):
            found.add(path.relative_to(HOME).as_posix())

    def on_progress(progress: Progress) -> None:
        sys.setprofile(profile if progress.round < progress.rounds else None)

    try:
        train(exp, executor=InProcess(threads=1), on_progress=on_progress)
    finally:
        sys.setprofile(None)
    return found


def test_a_plain_round_enters_only_what_a_star_needs() -> None:
    """No code of chains, clocks, asynchronous servers, attacks, callbacks or averages runs."""
    assert entered(experiment("fedavg", rounds=ROUNDS)) == set(MODULES)
    assert set(MODULES).isdisjoint(SPECIAL)


def test_the_documentation_has_the_number_of_modules() -> None:
    text = (HOME.parents[1] / "docs" / "design.md").read_text()
    assert f"enters {len(MODULES)} modules" in text


@pytest.mark.parametrize("module", SPECIAL)
def test_a_special_round_enters_more(module: str) -> None:
    """Otherwise the test above would prove nothing."""
    more = {"method": "fedavg", **SPECIAL[module]}
    assert module in entered(experiment(more.pop("method"), rounds=ROUNDS, **more))


def test_an_attack_that_observes_is_shown_broadcasts() -> None:
    setup = prepare(experiment("fedavg", rounds=2))
    object.__setattr__(setup.exp, "attack", Observer())  # unregistered, so without a text
    assert "simulation/attacks/observation.py" in entered(setup)
