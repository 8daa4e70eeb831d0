"""Which methods, settings and data the table compares, and how many trials each method has.

Every method of a column has equally many settings. Each is run once, with the seed `TRIAL_SEED`,
for the rounds of equal gradients, and the validation set chooses one. The chosen setting is run
with each of `SEEDS` for all rounds of the column, and its scores are read from this one curve at
three rounds: equal gradients, equal bytes and equal rounds. Learning rates are constant, and no
method has a schedule over the rounds, so a curve up to a round is that of a run which ends there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fedflat.errors import SpellingError, nearest
from fedflat.experiments.run_folder.schema import sign
from fedflat.papers.reproduce.selection import expand_patterns, matches

if TYPE_CHECKING:
    from fedflat.experiments.experiment import Experiment

NAME = "flat/equal-gradients"
TRIAL_SEED = 100
SEEDS = (0, 1, 2)
VALIDATION_SHARE = 0.1

METHODS = {
    "fedavg": "fedavg()",
    "fedavg-wima": "fedavg() + wima(window=10)",
    "scaffold": "scaffold()",
    "feddyn": "feddyn(alpha={0.01, 0.1})",
    "fedcm": "fedcm(a={0.1, 0.5})",
    "fedswa": "fedswa(alpha={1.0, 1.5})",
    "fedlesam": "fedlesam(rho={0.02, 0.1})",
    "fedgloss": "fedgloss(rho_s={0.05, 0.15}, rho_l=0, beta=10)",
    "fedgmt": "fedgmt(gamma={0.5, 1})",
    "fedsam": "fedsam(rho={0.05, 0.2})",
    "fedasam": "fedasam(rho={0.2, 0.5})",
    "mofedsam": "mofedsam(rho=0.1, a={0.1, 0.5})",
    "fedmoswa": "fedmoswa(gamma={0.2, 0.4})",
    "fedwmsam": "fedwmsam(rho={0.01, 0.1})",
    "fedlesam-d": "fedlesam_d(rho={0.02, 0.1})",
    "fedexp": "fedexp(eps={0.001, 0.1})",
    "fedntd": "fedntd(beta={0.3, 1})",
    "fedinit": "fedavg() + fedinit(beta={0.01, 0.1})",
    "fedspeed": "fedspeed(rho={0.05, 0.2})",
    "fedsmoo": "fedsmoo(rho={0.05, 0.2})",
    "fedsol": "fedsol(rho={0.5, 1})",
    "fednsam": "fednsam(rho={0.05, 0.2})",
    "fedtoga": "fedtoga(rho={0.05, 0.2})",
}
"""The rows, as texts of `fedflat sweep`: braces are values to choose from."""


@dataclass(frozen=True)
class WorkColumn:
    """Data, model and budget."""

    title: str
    rounds: int
    """Rounds of a method with one gradient per step: the budget of gradients."""
    window: int
    """A score is the mean of the evaluations in so many rounds before a reading."""
    target: float
    """The accuracy, in per cent, whose rounds and bytes are reported."""
    rates: tuple[float, ...]
    """Learning rates of methods without own choices, in rising order: one for each trial."""
    half: tuple[float, ...]
    """Learning rates of methods with two values of their own: half as many."""
    settings: Mapping[str, Any]


COLUMNS = {
    "digits": WorkColumn(
        title="Digits, one class per client, MLP",
        rounds=200, window=20, target=70.0,
        rates=(0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8), half=(0.1, 0.2, 0.4, 0.8),
        settings={
            "on": "digits(lda(0), clients=100)", "clients_per_round": 5, "local_epochs": 5,
            "batch_size": 16, "eval_every": 2,
        },
    ),
    "fashion": WorkColumn(
        title="Fashion-MNIST, Dirichlet 0.1, MLP",
        rounds=40, window=8, target=70.0,
        rates=(0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4), half=(0.05, 0.1, 0.2, 0.4),
        settings={
            "on": "fashion_mnist(lda(0.1, concentration='component', in_turns=True), clients=100)",
            "model": "mlp(hidden=[200, 200])", "clients_per_round": 10, "local_epochs": 1,
            "batch_size": 50, "clip": 10.0, "eval_every": 2,
        },
    ),
    "cifar10": WorkColumn(
        title="CIFAR-10, Dirichlet 0.1, CNN of FL-SAM",
        rounds=40, window=8, target=35.0,
        rates=(0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2), half=(0.02, 0.05, 0.1, 0.2),
        settings={
            "on": "cifar10(lda(0.1, concentration='component'), clients=100)",
            "model": "mcmahan_cnn()", "clients_per_round": 10, "local_epochs": 1,
            "batch_size": 50, "weight_decay": 1e-5, "clip": 10.0, "eval_every": 4,
        },
    ),
    "shakespeare": WorkColumn(
        title="Shakespeare, a role per client, LSTM",
        rounds=40, window=8, target=20.0,
        rates=(1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0), half=(1.5, 3.0, 6.0, 12.0),
        settings={
            "on": "shakespeare(clients=100, most=200, stride=10)", "clients_per_round": 10,
            "local_epochs": 1, "batch_size": 20, "clip": 10.0, "eval_every": 4,
        },
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A method on the data of a column."""

    column_name: str
    row: str

    @property
    def name(self) -> str:
        """``digits-fedsam``."""
        return f"{self.column_name}-{self.row}"

    @property
    def column(self) -> WorkColumn:
        """Data and budget."""
        return COLUMNS[self.column_name]

    @property
    def method(self) -> str:
        """The text of the method, with its choices."""
        return METHODS[self.row]

    @property
    def rates(self) -> tuple[float, ...]:
        return self.column.half if "{" in self.method else self.column.rates

    @property
    def definition(self) -> str:
        """A digest of all that the cell's numbers depend on, except for code and machine."""
        column = self.column
        budget = [column.rounds, column.window, TRIAL_SEED, SEEDS, VALIDATION_SHARE]
        return sign([self.name, self.method, self.rates, budget, dict(column.settings)])

    @cached_property
    def trials(self) -> list[tuple[str, float]]:
        """Method and learning rate of each trial."""
        from fedflat.experiments.search_space import families

        (family,) = families([self.method], {})
        return [(str(one.method), rate) for one in family.grid() for rate in self.rates]

    @cached_property
    def gradients(self) -> float:
        """Gradients of a client in a round, in those of FedAvg."""
        cost = self._cost()
        epochs = self.column.settings["local_epochs"]
        return float(cost.gradients * cost.local_trainings + cost.full_gradients / epochs)

    @cached_property
    def traffic(self) -> float:
        """Bytes of a round, in those of FedAvg."""
        cost = self._cost()
        return float(cost.down + cost.up) / 2

    def _cost(self) -> Any:
        from fedflat.registry.specs import parse

        return parse(self.trials[0][0], "method").cost

    @property
    def readings(self) -> dict[str, int]:
        rounds = self.column.rounds
        return {
            "gradients": int(rounds / self.gradients),
            "bytes": int(rounds / self.traffic),
            "rounds": rounds,
        }

    def experiment(self, method: str, lr: float, seed: int, rounds: int) -> Experiment:
        """One run of the cell."""
        from fedflat.experiments.api import experiment

        return experiment(
            method,
            rounds=rounds,
            seed=seed,
            lr=lr,
            validation=VALIDATION_SHARE,
            eval_last=self.column.window,
            on_bad="stop",
            **self.column.settings,
        )


def cells() -> list[Cell]:
    return [Cell(column, row) for column in COLUMNS for row in METHODS]


def matching_cells(patterns: list[str]) -> list[Cell]:
    """The cells whose names match any of the patterns."""
    names = [cell.name for cell in cells()]
    selected: set[str] = set()
    for pattern in (one for text in patterns for one in expand_patterns(text)):
        found = {name for name in names if matches(name, pattern)}
        if not found:
            raise SpellingError(
                f"--cells: no cell of {NAME} matches {pattern!r}.{nearest(pattern, names)} "
                f"`fedflat reproduce {NAME} --list` lists them."
            )
        selected |= found
    return [cell for cell in cells() if cell.name in selected]


def listing(selected: Collection[Cell]) -> str:
    """The cells by column, with the grid and the budgets, for printing before anything is run."""
    lines = [
        f"{NAME}: equally many trials for each method with seed {TRIAL_SEED}, chosen by a validation "
        f"set of {VALIDATION_SHARE:.0%} of each client's examples; then seeds "
        f"{', '.join(map(str, SEEDS))}. Readings: rounds of equal gradients / bytes / rounds.",
    ]
    for name, column in COLUMNS.items():
        own = [cell for cell in selected if cell.column_name == name]
        if not own:
            continue
        trials = f"{len(column.rates)} trials"
        lines += ["", f"{name}: {column.title}, {trials}, target {column.target:g} %"]
        wide = max(len(cell.name) for cell in own)
        for cell in own:
            rounds = " / ".join(map(str, cell.readings.values()))
            rates = ", ".join(f"{rate:g}" for rate in cell.rates)
            lines.append(f"  {cell.name:<{wide}}  {rounds:>15}  {cell.method}  lr {{{rates}}}")
    return "\n".join(lines)
