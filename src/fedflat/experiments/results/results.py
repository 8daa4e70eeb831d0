"""Results as the papers define them: means over the last rounds, spread over seeds, rounds, bytes
and simulated seconds to a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import mean
from typing import Any

from torch import nn

from fedflat.core.flat import Model
from fedflat.data.partition_notes import notes_of_text
from fedflat.errors import SettingError
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.results.attack_impact import DROP, drops, twin_of
from fedflat.experiments.results.scenario import Scenario
from fedflat.experiments.results.score_breakdown import by_class, by_test, spread
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.record import Facts, headline_of, read_facts, read_rows
from fedflat.experiments.state import RunState
from fedflat.server.ledger import Ledger
from fedflat.tasks.headline import ACCURACY, Headline

LOSS = Headline("loss", higher_is_better=False)


@dataclass(frozen=True, repr=False)
class Result:
    """One run that has ended, or as far as it got. It prints as a line, and shows as a table in a
    notebook.

    method
        The text of the method.
    seed
        The seed.
    rounds
        Number of rounds of the run.
    rows
        Its evaluations, in order.
    ledger
        Bytes, examples and seconds of the run.
    """

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
    """The server's model, or the one that stands for all it has."""
    source: Callable[[str | None], nn.Module] | None = field(default=None, compare=False)
    """What makes its models modules."""
    headline: Headline = ACCURACY
    """The score it is judged by."""
    attack: str = field(default="", compare=False)
    """The text of its attack, if there was one."""
    twin: str = field(default="", compare=False)
    """What it shares with the same run without an attack, see `twin_of`."""
    scenario: Scenario = field(default=Scenario(), compare=False)
    """Its data, their partition, and its task: results are compared within one scenario only."""

    @classmethod
    def of(
        cls,
        exp: Experiment,
        status: str,
        run: RunState,
        rows: Sequence[Row],
        source: Callable[[str | None], nn.Module] | None = None,
        model: Model | None = None,
    ) -> Result:
        """The result of a run just ended."""
        texts = exp.as_json()
        return cls(
            repr(exp.method),
            exp.seed,
            status,
            exp.rounds,
            exp.evaluate.last,
            list(rows),
            run.ledger,
            model,
            source,
            exp.headline,
            repr(exp.attack) if exp.attack else "",
            twin_of(texts),
            Scenario.of(texts, {}),
        )

    @classmethod
    def read(cls, folder: Path) -> Result:
        """The result a run folder holds."""
        facts = read_facts(folder)
        return replace(
            cls.telling(facts, read_rows(folder, facts=facts)), source=partial(_loaded, folder)
        )

    def module(self, model: str | None = None) -> nn.Module:
        """The model the run reports, or another one by name, as a module in evaluation mode."""
        if self.source is None:
            raise SettingError(
                "this result holds no model. Load one from its folder: fedflat.load(folder)."
            )
        return self.source(model)

    @classmethod
    def telling(cls, facts: Facts, rows: Sequence[Row]) -> Result:
        """The result that the facts and the evaluations of a run folder tell."""
        exp: dict[str, Any] = facts["experiment"]
        spent = (
            {name: rows[-1][name] for name in vars(Ledger()) if name in rows[-1]} if rows else {}
        )
        return cls(
            exp["method"],
            exp["seed"],
            facts["status"],
            exp["rounds"],
            exp["evaluate"]["last"],
            rows,
            Ledger(**spent),
            headline=headline_of(facts),
            attack=exp.get("attack") or "",
            twin=twin_of(exp),
            scenario=Scenario.of(exp, facts["origin"]),
        )

    @property
    def on(self) -> str:
        """The text of its data; empty if they were given in Python."""
        return self.scenario.on

    @property
    def last_rows(self) -> list[Row]:
        """The evaluations of the last rounds, which count."""
        return [row for row in self.rows if row["round"] > self.rounds - self.last]

    def final(self, name: str | None = None) -> float:
        """The mean of a measurement over the evaluations of the last rounds; NaN if there is none.

        Without a name it is the headline; ``tests.NAME.SCORE`` and ``models.NAME.SCORE`` are those
        that lie deeper.
        """
        values = self._values(name, self.last_rows)
        return mean(values) if values else math.nan

    def _values(self, name: str | None, rows: Sequence[Row]) -> list[float]:
        name = name or self.headline.name
        if "." in name:
            rows = [_flat(row) for row in rows]
        return [row[name] for row in rows if name in row]

    def __repr__(self) -> str:
        judged = self.headline
        said = (
            f"{judged.label} {judged.with_unit(self.final())}, last {judged.format(self.latest())}, "
            f"best {judged.format(self.best())}"
        )
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
        return self.status == "diverged" or not all(
            map(math.isfinite, self._values("loss", self.rows)[-1:])
        )

    def latest(self, name: str | None = None) -> float:
        """A measurement, or the headline, at the last evaluation that has it; NaN if there is
        none."""
        return next(iter(reversed(self._values(name, self.rows))), math.nan)

    def best(self, name: str | None = None) -> float:
        """The best value of the headline or of another measurement over all evaluations; NaN if
        there is none.

        The best loss is the least, and of anything else what would be best as a headline.
        """
        values = self._values(name, self.rows)
        return LOSS.best(values) if (name or "").endswith("loss") else self.headline.best(values)

    def reached(self, target: float) -> Row | None:
        """The first evaluation whose headline is at least as good."""
        judged = self.headline
        return next(
            (row for row in self.rows if judged.reaches(row.get(judged.name, math.nan), target)),
            None,
        )

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
        from fedflat.experiments.results.tables import table  # which shows what is defined here

        return table(summarise(self, None), None, min(self[0].last, self[0].rounds), style)

    @property
    def headline(self) -> Headline | None:
        """The score that all are judged by; None if they are judged by different ones, or there are
        none."""
        found = {result.headline for result in self}
        return found.pop() if len(found) == 1 else None

    def target_of_first(self) -> float | None:
        """What the first of several methods came to, for the others to reach; None if that makes no
        sense."""
        if self.headline is None or len({result.scenario for result in self}) > 1:
            return None
        if len({result.method for result in self}) < 2:
            return None
        first = mean(result.final() for result in self if result.method == self[0].method)
        sensible = 0 < first <= 1 if self.headline.share else math.isfinite(first)
        return first if sensible else None

    def frame(self) -> Any:
        """Every evaluation of every run as a row of a pandas DataFrame, if pandas is there."""
        try:
            pandas: Any = import_module("pandas")
        except ImportError:
            raise SettingError(
                "frame() makes a pandas DataFrame, and pandas is not installed here. Install it (pip install pandas), "
                "or take the evaluations as a list of dicts: result.rows."
            ) from None
        return pandas.DataFrame(
            [{"method": r.method, "seed": r.seed, **_flat(row)} for r in self for row in r.rows]
        )


def _flat(row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """A row with names such as ``models.server.accuracy`` for what lies deeper."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        flat |= (
            _flat(value, f"{before}{name}.")
            if isinstance(value, Mapping)
            else {f"{before}{name}": value}
        )
    return flat


def _loaded(folder: Path, model: str | None) -> nn.Module:
    from fedflat.experiments.run_folder.load import load  # which trains, and so knows results

    return load(folder, model=model)


@dataclass(frozen=True)
class Summary:
    """One method over its seeds."""

    method: str
    seeds: int
    score: float
    """The headline, mean over seeds."""
    spread: float
    """The standard deviation over seeds; NaN for one seed."""
    loss: float
    rounds_to_target: float | None
    """The mean over seeds; None if a seed never reached it."""
    bytes_to_target: float | None
    bytes: float
    """Bytes sent in the whole run, mean over seeds."""
    speed: float
    diverged: int
    """Seeds that diverged."""
    personal: float = math.nan
    """The best score of the clients' own models over the rounds, mean over seeds; NaN if not
    measured."""
    personal_spread: float = math.nan
    latest: float = math.nan
    """The headline at the last evaluation, mean over seeds."""
    best: float = math.nan
    """The best headline of all evaluations, mean over seeds."""
    clock: float = math.nan
    """Simulated seconds of the whole run, mean over seeds; NaN without a clock."""
    clock_to_target: float | None = None
    epsilon: float = math.nan
    """The privacy budget of the whole run, the largest over seeds; NaN without `dp`."""
    headline: Headline = ACCURACY
    """The score it is judged by."""
    models: float = 0.0
    """Models sent in the whole run, between server and clients and among clients, mean over
    seeds."""
    tests: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The same score and its spread on further test sets, by their names; on the examples of a
    domain under TEST/DOMAIN, and its standard deviation over the domains of a test set under
    TEST/std."""
    classes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The IoU of each class and its spread, where each pixel has a class."""
    notes: tuple[str, ...] = ()
    """What must be known of the partitions of its data, see `Partition.note`."""
    scenario: Scenario = Scenario()
    """The data, their partition, and the task."""


def summarise(results: Sequence[Result], target: float | None) -> list[Summary]:
    """One line for each scenario, headline, method and attack, in the order they come.

    results
        Results of runs.
    target
        The headline score to reach; None: none.
    """
    kinds: dict[tuple[Scenario, Headline, str, str], list[Result]] = {}
    for result in results:
        kinds.setdefault(
            (result.scenario, result.headline, result.method, result.attack), []
        ).append(result)
    found = []
    for (*group, method, attack), own in kinds.items():
        several = len({other[-1] for other in kinds if other[:3] == (*group, method)}) > 1
        name = f"{method}, attack={attack}" if attack and several else method
        found.append(replace(_summary(own, target, results), method=name))
    return found


def _epsilon(run: Result) -> float:
    return max((row["epsilon"] for row in run.rows if "epsilon" in row), default=math.nan)


def _summary(runs: list[Result], target: float | None, among: Sequence[Result]) -> Summary:
    finals = [run.final() for run in runs]
    personal = [run.best("personal") for run in runs]
    hits = [run.reached(target) if target is not None else None for run in runs]
    found = [hit for hit in hits if hit is not None]
    everywhere = len(found) == len(runs)
    timed = all(run.ledger.clock is not None for run in runs)
    return Summary(
        method=runs[0].method,
        seeds=len(runs),
        score=mean(finals),
        spread=spread(finals),
        loss=mean(run.final("loss") for run in runs),
        rounds_to_target=mean(hit["round"] for hit in found) if everywhere else None,
        bytes_to_target=mean(hit["down"] + hit["up"] + hit.get("c2c", 0) for hit in found)
        if everywhere
        else None,
        bytes=mean(run.ledger.sent for run in runs),
        models=mean(run.ledger.models for run in runs),
        speed=mean(run.speed for run in runs),
        diverged=sum(run.diverged for run in runs),
        personal=mean(personal),
        personal_spread=spread(personal),
        latest=mean(run.latest() for run in runs),
        best=mean(run.best() for run in runs),
        clock=mean(run.ledger.clock or 0.0 for run in runs) if timed else math.nan,
        clock_to_target=mean(hit.get("clock", math.nan) for hit in found)
        if everywhere and timed
        else None,
        epsilon=max(_epsilon(run) for run in runs),
        headline=runs[0].headline,
        tests=by_test(runs)
        | ({DROP: (mean(lost), spread(lost))} if (lost := drops(runs, among)) else {}),
        classes=by_class(runs),
        notes=tuple(dict.fromkeys(note for run in runs for note in notes_of_text(run.on))),
        scenario=runs[0].scenario,
    )
