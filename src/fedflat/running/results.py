"""Results as the papers define them: means over the last rounds, spread over seeds, rounds and bytes to a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from torch import nn

from fedflat.engine.flat import Model
from fedflat.errors import SettingError
from fedflat.folder.diary import Row
from fedflat.folder.facts import Facts, read_facts, read_rows
from fedflat.running.experiment import Experiment
from fedflat.running.state import Ledger, Run


@dataclass(frozen=True, repr=False)
class Result:
    """One run that has ended, or as far as it got. It prints as a line, and shows as a table in a notebook."""

    method: str
    seed: int
    status: str
    """"done", "diverged" or "running"."""
    rounds: int
    last: int
    """How many of the last rounds count."""
    rows: Sequence[Row]
    ledger: Ledger
    model: Model | None = None
    """The server's model."""
    source: Callable[[str | None], nn.Module] | None = field(default=None, compare=False)
    """What makes its models modules."""

    @classmethod
    def of(
        cls, exp: Experiment, status: str, run: Run, rows: Sequence[Row],
        source: Callable[[str | None], nn.Module] | None = None,
    ) -> Result:  # fmt: skip
        """The result of a run just ended."""
        return cls(
            repr(exp.method), exp.seed, status, exp.rounds, exp.evaluate.last, list(rows), run.ledger, run.model, source
        )

    @classmethod
    def read(cls, folder: Path) -> Result:
        """The result a run folder holds."""
        facts = read_facts(folder)
        return replace(cls.told(facts, read_rows(folder, facts=facts)), source=partial(_loaded, folder))

    def module(self, model: str | None = None) -> nn.Module:
        """The model the run reports, or another one by name, as a module in evaluation mode."""
        if self.source is None:
            raise SettingError("this result holds no model. Load one from its folder: fedflat.load(folder).")
        return self.source(model)

    @classmethod
    def told(cls, facts: Facts, rows: Sequence[Row]) -> Result:
        """The result that the facts and the evaluations of a run folder tell."""
        exp: dict[str, Any] = facts["experiment"]
        spent = {name: rows[-1][name] for name in vars(Ledger())} if rows else {}
        return cls(
            exp["method"], exp["seed"], facts["status"], exp["rounds"], exp["evaluate"]["last"], rows, Ledger(**spent)
        )

    @property
    def last_rows(self) -> list[Row]:
        """The evaluations of the last rounds, which count."""
        return [row for row in self.rows if row["round"] > self.rounds - self.last]

    def final(self, name: str = "accuracy") -> float:
        """The mean of a measurement over the evaluations of the last rounds; NaN if there is none."""
        values = [row[name] for row in self.last_rows if name in row]
        return mean(values) if values else math.nan

    def __repr__(self) -> str:
        said = f"accuracy {percent(self.final())} %, last {percent(self.latest())}, best {percent(self.best())}"
        at = self.rows[-1]["round"] if self.rows else 0
        return f"<Result of {self.method}, seed {self.seed}: {said}; {self.status}, evaluated at {at} of {self.rounds}>"

    def _repr_html_(self) -> str:
        return Results([self])._repr_html_()

    def frame(self) -> Any:
        """Every evaluation as a row of a pandas DataFrame, if pandas is there."""
        return Results([self]).frame()

    @property
    def diverged(self) -> bool:
        """Whether it was stopped as diverged, or its last loss is not a number."""
        return self.status == "diverged" or bool(self.rows and not math.isfinite(self.rows[-1].get("loss", 0.0)))

    def latest(self, name: str = "accuracy") -> float:
        """A measurement at the last evaluation that has it; NaN if there is none."""
        return next((row[name] for row in reversed(self.rows) if name in row), math.nan)

    def best(self, name: str = "accuracy") -> float:
        """The largest value of a measurement over all evaluations; NaN if there is none."""
        return max((row[name] for row in self.rows if name in row), default=math.nan)

    def reached(self, target: float) -> Row | None:
        """The first evaluation with at least this accuracy."""
        return next((row for row in self.rows if row.get("accuracy", 0.0) >= target), None)

    @property
    def speed(self) -> float:
        """Examples trained on in a second of exchanges."""
        return self.ledger.samples / self.ledger.training if self.ledger.training else math.nan


class Results(list[Result]):
    """Several runs: a list that prints as its table, and shows as one in a notebook."""

    def __repr__(self) -> str:
        return self._table("text") if self else "no results"

    def _repr_html_(self) -> str:
        return self._table("html") if self else "no results"

    def _table(self, style: str) -> str:
        from fedflat.running.tables import table  # which shows what is defined here

        return table(summarise(self, None), None, min(self[0].last, self[0].rounds), style)

    def frame(self) -> Any:
        """Every evaluation of every run as a row of a pandas DataFrame, if pandas is there."""
        try:
            pandas: Any = import_module("pandas")
        except ImportError:
            raise SettingError(
                "frame() makes a pandas DataFrame, and pandas is not installed here. Install it (pip install pandas), "
                "or take the evaluations as a list of dicts: result.rows."
            ) from None
        return pandas.DataFrame([{"method": r.method, "seed": r.seed, **_flat(row)} for r in self for row in r.rows])


def _flat(row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """A row with names such as ``models.server.accuracy`` for what lies deeper."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        flat |= _flat(value, f"{before}{name}.") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return flat


def _loaded(folder: Path, model: str | None) -> nn.Module:
    from fedflat.running.loading import load  # which trains, and so knows results

    return load(folder, model=model)


@dataclass(frozen=True)
class Summary:
    """One method over its seeds."""

    method: str
    seeds: int
    accuracy: float
    spread: float
    """The standard deviation over seeds; NaN for one seed."""
    loss: float
    rounds_to_target: float | None
    """The mean over seeds; None if a seed never reached it."""
    bytes_to_target: float | None
    bytes: float
    """Bytes up and down in the whole run, mean over seeds."""
    speed: float
    diverged: int
    """Seeds that diverged."""
    personal: float = math.nan
    """The best accuracy of the clients' own models over the rounds, mean over seeds; NaN if not measured."""
    personal_spread: float = math.nan
    latest: float = math.nan
    """The accuracy at the last evaluation, mean over seeds."""
    best: float = math.nan
    """The best accuracy of all evaluations, mean over seeds."""


def summarise(results: Sequence[Result], target: float | None) -> list[Summary]:
    """One line for each method, in the order they come."""
    names = list(dict.fromkeys(result.method for result in results))
    return [_summary([r for r in results if r.method == name], target) for name in names]


def _summary(runs: list[Result], target: float | None) -> Summary:
    finals = [run.final() for run in runs]
    personal = [run.best("personal") for run in runs]
    hits = [run.reached(target) if target is not None else None for run in runs]
    found = [hit for hit in hits if hit is not None]
    everywhere = len(found) == len(runs)
    return Summary(
        method=runs[0].method,
        seeds=len(runs),
        accuracy=mean(finals),
        spread=_spread(finals),
        loss=mean(run.final("loss") for run in runs),
        rounds_to_target=mean(hit["round"] for hit in found) if everywhere else None,
        bytes_to_target=mean(hit["down"] + hit["up"] for hit in found) if everywhere else None,
        bytes=mean(run.ledger.down + run.ledger.up for run in runs),
        speed=mean(run.speed for run in runs),
        diverged=sum(run.diverged for run in runs),
        personal=mean(personal),
        personal_spread=_spread(personal),
        latest=mean(run.latest() for run in runs),
        best=mean(run.best() for run in runs),
    )


def percent(value: float, spread: float = math.nan) -> str:
    """A share as a number of per cent, with its spread if there is one.

    >>> percent(0.8123), percent(0.8123, 0.01), percent(math.nan)
    ('81.23', '81.23 ± 1.00', '-')
    """
    if math.isnan(value):
        return "-"
    return f"{100 * value:.2f}" + (f" ± {100 * spread:.2f}" if not math.isnan(spread) else "")


def _spread(values: list[float]) -> float:
    return stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else math.nan
