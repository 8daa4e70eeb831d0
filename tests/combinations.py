"""Which methods can be combined: every base method with every addition, on a small problem.

`matrix` returns the table of docs/combinations.md; ``python tests/combinations.py`` prints it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn

from fedflat.client.local import LocalTraining
from fedflat.client.private_parameters import Private
from fedflat.composition.method import Method
from fedflat.core.flat import Model
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.execution.in_process import InProcess
from fedflat.experiments.experiment import EvaluationSchedule, Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.methods.fedcg import Branches
from fedflat.methods.fedcr import CommonRepresentation
from fedflat.models.simple import mlp
from fedflat.models.wrapped import stochastic
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler

BASES = {
    "FedAvg": "fedavg()",
    "FedAvgM": "fedavgm(beta=0.5)",
    "FedAdam": "fedadam(lr=0.01)",
    "FedAdaGrad": "fedadagrad(lr=0.01)",
    "FedYogi": "fedyogi(lr=0.01)",
    "FedProx": "fedprox(mu=0.1)",
    "SCAFFOLD": "scaffold()",
    "FedDyn": "feddyn(alpha=0.1)",
    "AdaBest": "adabest(beta=0.5, mu=0.02)",
    "FedDC": "feddc(alpha=0.1)",
    "FedCM": "fedcm(a=0.5)",
    "Mime": "mime(b=0.5)",
    "MimeLite": "mimelite(b=0.5)",
    "FedACG": "fedacg(lam=0.5, beta=0.01)",
    "FedSAM": "fedsam(rho=0.05)",
    "FedASAM": "fedasam(rho=0.1)",
    "MoFedSAM": "mofedsam(rho=0.05, a=0.5)",
    "FedSpeed": "fedspeed(rho=0.05, lam=10)",
    "FedGamma": "fedgamma(rho=0.05)",
    "FedLESAM": "fedlesam(rho=0.05)",
    "FedSMOO": "fedsmoo(rho=0.05)",
    "NaiveFedGloSS": "naive_fedgloss(rho_s=0.05)",
    "FedGloSS": "fedgloss(rho_s=0.05)",
    "FedFSA": "fedfsa(rho=0.05, rho_larger=0.1, a=0.5)",
    "FedALA": "fedala(threshold=10)",
    "FedBN": "fedbn()",
    "SiLoBN": "silobn()",
    "FedCR": "fedcr(beta=0.001)",
    "FedCG": "fedcg(domains=2, weight=0.5)",
    "FedExP": "fedexp()",
    "FedInit": "fedinit(beta=0.1)",
    "FedLESAM-S": "fedlesam_s(rho=0.05)",
    "FedLESAM-D": "fedlesam_d(rho=0.05)",
    "FedSWA": "fedswa()",
    "FedMoSWA": "fedmoswa()",
    "FedNova": "fednova()",
    "FedNSAM": "fednsam(lam=0.5)",
    "FedWMSAM": "fedwmsam(rho=0.05, a=0.5)",
    "FedSOL": "fedsol(rho=0.5)",
    "FedTOGA": "fedtoga(beta=0.5)",
    "FedGMT": "fedgmt()",
    "FedNTD": "fedntd()",
    "FedLC": "fedlc(tau=0.1)",
    "FedRS": "fedrs()",
    "FedDecorr": "feddecorr()",
    "MOON": "moon(projection=0)",
    "local Adam": "local_adam()",
    "local AdamW": "local_adamw(state='client')",
}
"""The methods of the papers, by their names there."""

RECENT = list(BASES)[list(BASES).index("FedExP") :]
"""Bases that `tests/test_combinations.py` tries in one combination for each probe instead of four,
to save time; ``make test-slow`` tries them all."""

ADDED = {
    "sam": "sam(rho=0.05)",
    "asam": "asam(rho=0.1)",
    "fsa": "fsa(rho=0.05, rho_larger=0.1)",
    "man": "man(zeta=0.1)",
    "swa": "swa(start=1, cycle=1)",
    "wima": "wima(window=2)",
    "server_momentum": "server_momentum(beta=0.5)",
}
"""What can be added to them, by the columns of the table."""

REASONS = {
    "store their state under the name": "is in it",
    "both choose where a client's gradient is taken": "two probes",
    "both decide where the server steps to": "two server steps",
    "there is nothing for": "two server steps",
    "has a state, and": "would move twice",
    "weighting of clients": "other weights",
}
"""Why two are refused: a piece of the message, and the word for the table."""

CLIENTS, COHORT, ROUNDS, FEATURES = 3, 2, 3, 2


@cache
def method_of(text: str) -> Method:
    """The method a text says."""
    method = parse(text, "method")
    assert isinstance(method, Method)
    return method


def normalised() -> nn.Module:
    """The small network with batch normalisation."""
    sizes = [(4, 3), (3, 3)]
    hidden = [part for a, b in sizes for part in (nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(3, 2))


@dataclass(frozen=True, repr=False)
class Opened(DataSpec):
    """A federation that is open already."""

    fed: Federation

    def __repr__(self) -> str:  # without its numbers, which take long to print
        return "opened()"

    def open(self, seed: int) -> Federation:
        return self.fed


def _given() -> Opened:
    rng = torch.Generator().manual_seed(0)
    data = [(torch.randn(4, 4, generator=rng), torch.arange(4) % 2) for _ in range(CLIENTS)]
    return Opened(clients_of(data, test=data[0], classes=2).open(0))


ON = _given()


def ready(method: Method) -> RunSetup:
    """Three clients of four examples, two of them a round, two steps each; two hidden layers."""
    kinds = {type(piece) for piece in method.client}
    model: Any = mlp([3, 3])
    if CommonRepresentation in kinds:
        model = stochastic(mlp([3, 3]), dim=FEATURES, train_samples=2, test_samples=2)
    elif Private in kinds:
        model = normalised
    exp = Experiment(
        method=method,
        on=ON,
        model=model,
        rounds=ROUNDS,
        local=LocalTraining(batch_size=2, lr=0.05),
        sampler=ClientSampler(cohorts=[[0, 1], [1, 2], [2, 0]]),
        evaluate=EvaluationSchedule(every=ROUNDS, last=1),
    )
    return prepare(exp)


class Spent(RunFolder):
    """Keeps the bytes spent by the end of each round, down and up."""

    def __init__(self) -> None:
        super().__init__()
        self.totals = [(0, 0)]

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        if not force:
            self.totals.append((run.ledger.down, run.ledger.up))


def declared(run: RunSetup, model: Model, new: int = 0) -> tuple[int, int]:
    """The bytes of a round after the first, by the method's own account, with ``new`` clients, who
    are sent what they keep to themselves from then on."""
    method = run.exp.method
    cost, dim = method.cost, len(model.params)
    exchanges = (
        cost.local_trainings * (1 - sum(piece.full_gradients for piece in method.client))
        + cost.full_gradients
    )
    small = (
        cost.local_trainings * 2 * 2 * FEATURES
        if any(piece.key == "fedcr" for piece in method.client)
        else 0
    )
    more = exchanges * (len(model.buffers) - run.job.private_size) + small
    first = 4 * new * cost.local_trainings * run.job.private_size
    teacher = exchanges * sum(
        5 * 3 + 4 * 3 + 4 * piece.domains for piece in method.client if isinstance(piece, Branches)
    )
    down = 4 * COHORT * (cost.down * dim + more + teacher) + first
    sent = [piece.key for piece in method.client]
    down += 4 * COHORT * (2 if "fedwmsam" in sent else 0)  # a double
    numbers = (2 if "fednova" in sent else 0) + (1 if "fedwmsam" in sent else 0)
    return down, 4 * COHORT * (cost.up * dim + more + numbers)


def trains(method: Method) -> bool:
    """Whether it gives finite numbers, moves, and costs what it says."""
    run, run_folder = ready(method), Spent()
    result = train(run, run_folder=run_folder, executor=InProcess(threads=1))
    assert result.model is not None
    first = run.job.learner.initial()
    row = result.rows[-1]
    numbers = [row["train_loss"], *(scores["loss"] for scores in row["models"].values())]
    (_, one, two, three) = run_folder.totals
    rounds = [(b[0] - a[0], b[1] - a[1]) for a, b in ((one, two), (two, three))]
    return (
        result.status == "done"
        and bool(torch.isfinite(result.model.params).all())
        and not torch.equal(result.model.params, first.params)
        and all(map(math.isfinite, numbers))
        and list(row["models"]) == ["server", *(average.key for average in method.averages)]
        and rounds == [declared(run, first, new=1), declared(run, first)]
    )


def short(message: str) -> str:
    """The table's word for a refusal."""
    return next(word for piece, word in REASONS.items() if piece in message)


def verdict(base: str, added: str) -> str:
    """A tick if the two train together, else why they are refused."""
    try:
        method = method_of(f"{BASES[base]} + {ADDED[added]}")
    except SettingError as error:
        return short(str(error))
    assert trains(method), f"{base} + {added}"
    return "✓"


def matrix() -> str:
    """The table of all base methods and additions, in Markdown."""
    lines = ["| | " + " | ".join(f"`+ {name}`" for name in ADDED) + " |"]
    lines.append("|---" * (len(ADDED) + 1) + "|")
    for base in BASES:
        lines.append(f"| {base} | " + " | ".join(verdict(base, added) for added in ADDED) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(matrix())
