"""Results of several seeds as one line: means, spread, and what it took to reach a target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean, stdev
from typing import TYPE_CHECKING

from fedflat.experiments.results.scenario import Scenario
from fedflat.tasks.headline import ACCURACY, CLASS_IOU, Headline

if TYPE_CHECKING:
    from fedflat.experiments.results.results import Result

DROP = "drop"
"""The name of the loss by an attack beside the scores on further test sets."""
MAIN, STD = "test", "std"
"""The name of the main test set where each domain is listed, and that of the spread over its
domains."""
ScoreTable = dict[str, tuple[float, float]]
"""A score and its standard deviation over seeds, by name."""


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
    """The best headline of all evaluations, mean over seeds; optimistic, since the test set chooses
    the evaluation."""
    chosen: float = math.nan
    """The headline at the evaluation that the validation set chooses, mean over seeds; NaN without
    a validation set."""
    chosen_spread: float = math.nan
    by_validation: bool = False
    """Whether the score is that of the evaluation that the validation set chooses."""
    clock: float = math.nan
    """Simulated seconds of the whole run, mean over seeds; NaN without a clock."""
    clock_to_target: float | None = None
    epsilon: float = math.nan
    """The privacy budget of the whole run, the largest over seeds; NaN without `dp`."""
    headline: Headline = ACCURACY
    """The headline score."""
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
    loss_spread: float = math.nan
    """The standard deviation of the loss over seeds."""
    tried: int = 1
    """How many settings of the method a sweep tries; 1 without a sweep."""


def summarise(results: Sequence[Result], target: float | None) -> list[Summary]:
    """One line for each scenario, headline, method and attack, in the order they come.

    results
        Results of runs.
    target
        The headline score to reach; None: none.
    """
    kinds: dict[tuple[Scenario, Headline, bool, str, str], list[Result]] = {}
    for result in results:
        kinds.setdefault(
            (result.scenario, result.headline, result.by_validation, result.method, result.attack),
            [],
        ).append(result)
    found = []
    for (*group, method, attack), own in kinds.items():
        several = len({other[-1] for other in kinds if other[:4] == (*group, method)}) > 1
        name = f"{method}, attack={attack}" if attack and several else method
        found.append(replace(_summary(own, target, results), method=name))
    return found


def _epsilon(run: Result) -> float:
    return max((row["epsilon"] for row in run.rows if "epsilon" in row), default=math.nan)


def _summary(runs: list[Result], target: float | None, among: Sequence[Result]) -> Summary:
    finals = [run.final() for run in runs]
    personal = [run.best("personal") for run in runs]
    chosen = [run.chosen() for run in runs]
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
        chosen=mean(chosen),
        chosen_spread=spread(chosen),
        by_validation=runs[0].by_validation,
        clock=mean(run.ledger.clock or 0.0 for run in runs) if timed else math.nan,
        clock_to_target=mean(hit.get("clock", math.nan) for hit in found)
        if everywhere and timed
        else None,
        epsilon=max(_epsilon(run) for run in runs),
        headline=runs[0].headline,
        tests=by_test(runs)
        | ({DROP: (mean(lost), spread(lost))} if (lost := drops(runs, among)) else {}),
        classes=by_class(runs),
        notes=tuple(dict.fromkeys(note for run in runs for note in run.scenario.notes)),
        scenario=runs[0].scenario,
        loss_spread=spread([run.final("loss") for run in runs]),
        tried=max(run.tried for run in runs),
    )


def by_test(runs: Sequence[Result]) -> ScoreTable:
    """The headline on each further test set and in each domain that the runs have, and its spread
    over domains."""
    score = runs[0].headline.name
    rows = [row for run in runs for row in run.last_rows]
    named = dict.fromkeys(name for row in rows for name in row.get("tests", {}))
    where = {name: f"tests.{name}.{score}" for name in named}
    where |= {f"{name}/{STD}": f"{where[name]}_{STD}" for name in named}
    where |= {f"{MAIN}/{STD}": f"{score}_{STD}"}
    finals = {name: [run.final(place) for run in runs] for name, place in where.items()}
    known = {
        name: values
        for name, values in finals.items()
        if name in named or any(map(math.isfinite, values))
    }
    return {name: (mean(values), spread(values)) for name, values in known.items()}


def by_class(runs: Sequence[Result]) -> ScoreTable:
    """The IoU of each class on the test set, where each pixel has a class; by its name, if the data
    set has names."""
    rows = [row for run in runs for row in run.last_rows]
    each = list(dict.fromkeys(name for row in rows for name in row if name.startswith(CLASS_IOU)))
    names = runs[0].scenario.class_names if each else ()
    finals = [[run.final(place) for run in runs] for place in each]
    if len(names) != len(each):
        names = tuple(place.removeprefix(CLASS_IOU) for place in each)
    return {
        name: (mean(values), spread(values)) for name, values in zip(names, finals, strict=True)
    }


def spread(values: Sequence[float]) -> float:
    """The standard deviation; NaN where there is none."""
    return stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else math.nan


def drops(runs: Sequence[Result], among: Sequence[Result]) -> list[float]:
    """The loss of score of each run against the same run without its attack; empty if one has none.

    Worse is positive, whichever direction is better.
    """
    clean = {one.twin: one for one in among if one.twin and not one.attack}
    if not all(run.attack and run.twin in clean for run in runs):
        return []
    sign_of = 1 if runs[0].headline.higher_is_better else -1
    return [sign_of * (clean[run.twin].final() - run.final()) for run in runs]
