"""A search by Optuna: it proposes settings from the scores of earlier ones, and prunes bad ones.

Trials are proposed `GROUP` at a time. The runs of a group stop at a quarter, a half and three
quarters of their rounds; there the pruner compares their validation scores with those of earlier
groups. So the trials follow from the seed of the search and the scores alone. They do not depend on
the number of cores. A search that was killed is repeated from the run folders.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from fedflat.core.seeds import numpy_generator
from fedflat.data.info import VALIDATION
from fedflat.errors import RunError, SettingError
from fedflat.experiments.api import experiments_of
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.study_file import PlannedRun, check_planned, is_run, read_plan
from fedflat.experiments.search_space import Axis, Configuration, Family, families
from fedflat.experiments.study import end_run, slug
from fedflat.registry.choices import Range
from fedflat.sweeps.parallel import run_study

GROUP = 4
"""Settings of a method that are proposed at a time."""
STOPS = (0.25, 0.5, 0.75, 1.0)
"""The shares of the rounds after which the pruner is asked; the last is the end."""
FEW = 4
"""Trials that must have ended before others are pruned, and before settings are proposed by
scores."""
ATTEMPTS = 100
"""Proposals of the same setting after which a search ends."""


@dataclass(frozen=True)
class Search:
    """What is searched: the content of ``search`` in study.json."""

    methods: Sequence[str]
    settings: Mapping[str, Any]
    seeds: Sequence[int]
    trials: int
    seed: int

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {**vars(self), "settings": _texts(self.settings)}

    def evaluated(self, every: int, last: int) -> Search:
        """The same with all trials evaluated in the same rounds, unless these were given."""
        return replace(self, settings={"eval_every": every, "eval_last": last, **self.settings})

    def families(self) -> list[Family]:
        return families(self.methods, self.settings, "sweep")


@dataclass
class Proposal:
    """One trial of a method: Optuna's, its settings and its runs."""

    asked: Any
    configuration: Configuration
    runs: list[PlannedRun] = field(default_factory=list)
    reported: set[int] = field(default_factory=set)
    """Rounds whose scores the pruner has."""
    pruned: bool = False


class FamilySearch:
    """The search over the settings of one method."""

    def __init__(self, family: Family, place: int, search: Search) -> None:
        self.family, self.place, self.left = family, place, search.trials
        self.optuna = load_optuna()
        seed = int(numpy_generator(search.seed, "sweep", place).integers(2**31))
        self.study: Any = None
        self._seed, self._seen = seed, set[str]()

    def begin(self, higher_is_better: bool) -> None:
        """Make Optuna's study."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about experimental options, which are its defaults
            self.study = self.optuna.create_study(
                direction="maximize" if higher_is_better else "minimize",
                sampler=self.optuna.samplers.TPESampler(seed=self._seed, n_startup_trials=FEW),
                pruner=self.optuna.pruners.MedianPruner(n_startup_trials=FEW),
            )
        if self.family.listed and self.family.size <= self.left:
            self.left = self.family.size
            names = [axis.name for axis in self.family.axes]
            sizes = [range(len(axis.values)) for axis in self.family.axes]  # type: ignore[arg-type]
            for places in product(*sizes):
                self.study.enqueue_trial(dict(zip(names, places, strict=True)))

    def ask(self) -> list[Proposal]:
        """The next settings, all different from earlier ones; none if the search has ended."""
        found: list[Proposal] = []
        while len(found) < GROUP and self.left:
            proposal = self._different()
            if proposal is None:
                self.left = 0
                break
            found.append(proposal)
            self.left -= 1
        return found

    def _different(self) -> Proposal | None:
        for _ in range(ATTEMPTS):
            asked = self.study.ask()
            values = {axis.name: _suggested(asked, axis) for axis in self.family.axes}
            configuration = self.family.at(values)
            if configuration.label not in self._seen:
                self._seen.add(configuration.label)
                return Proposal(asked, configuration)
            self.study.tell(asked, state=self.optuna.trial.TrialState.FAIL)
        return None

    def tell(self, proposal: Proposal, score: float) -> None:
        """Report the end of a trial; one that was pruned or diverged has no score."""
        if proposal.pruned or not math.isfinite(score):
            self.study.tell(proposal.asked, state=self.optuna.trial.TrialState.PRUNED)
        else:
            self.study.tell(proposal.asked, score)


def load_optuna() -> Any:
    """The module ``optuna``, without its messages."""
    try:
        optuna: Any = import_module("optuna")
    except ImportError:
        raise SettingError(
            "--search optuna needs Optuna, which is not installed: pip install 'fedflat[optuna]'. "
            "Or draw settings at random: --search random."
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def first_group(search: Search) -> list[list[Configuration]]:
    """The settings that are run first, for each method."""
    return [
        [one.configuration for one in _begun(family, place, search, True).ask()]
        for place, family in enumerate(search.families())
    ]


def planned_runs(
    each: Sequence[Configuration], number: int, search: Search, place: int, tried: int
) -> list[PlannedRun]:
    """The runs of settings, one for each seed; ``number`` is how many settings came before."""
    found = []
    for index, one in enumerate(each, number + 1):
        own = [f"{name}={value}" for name, value in one.values.items() if name in one.settings]
        name = slug(" ".join([str(one.method), *own]))
        found += [
            PlannedRun(f"{place + 1}-{index:03d}-{name}/seed-{exp.seed}", exp.texts(), tried)
            for exp in experiments_of([one], search.seeds, "sweep")
        ]
    return found


def run_search(
    folder: Path, jobs: int, checkpoint_every: float, note: Callable[[str], object]
) -> set[Path]:
    """Run what has not ended of a search. Returns the folders of the runs that were pruned."""
    plan = read_plan(folder)
    assert plan.search is not None
    search = Search(**plan.search)
    first = search.families()[0]
    example = _begun(first, 0, search, True).ask()[0].configuration
    headline = experiments_of([example], search.seeds[:1], "sweep")[0].headline
    higher, name = headline.higher_is_better, headline.name
    each = [_begun(family, at, search, higher) for at, family in enumerate(search.families())]
    sizes, pruned = [one.left for one in each], set[Path]()
    while True:
        groups = [(one, size - one.left, one.ask()) for one, size in zip(each, sizes, strict=True)]
        trials = [(one, trial) for one, _, group in groups for trial in group]
        if not trials:
            return pruned
        for (one, before, group), size in zip(groups, sizes, strict=True):
            for place, trial in enumerate(group):
                trial.runs = planned_runs(
                    [trial.configuration], before + place, search, one.place, size
                )
        add_runs(folder, [run for _, trial in trials for run in trial.runs])
        for stop in STOPS:
            runs = [run for _, trial in trials if not trial.pruned for run in trial.runs]
            until = {run.folder: max(1, math.ceil(stop * run.experiment.rounds)) for run in runs}
            run_study(folder, jobs, checkpoint_every, lambda text: None, runs, until)
            for _, trial in trials:
                if trial.pruned:
                    continue
                ended = _report(folder, trial, until, name)
                if stop < 1 and not ended and trial.asked.should_prune():
                    trial.pruned = True
                    for run in trial.runs:
                        end_run(folder / run.folder)
                    pruned |= {folder / run.folder for run in trial.runs}
        for one, trial in trials:
            one.tell(trial, score(folder, trial, name))
        done, total = sum(sizes) - sum(one.left for one in each), sum(sizes)
        note(f"{done} of {total} settings have ended, {len(pruned) // len(search.seeds)} pruned")


def score(folder: Path, trial: Proposal, name: str) -> float:
    """The mean score on the validation set over seeds at the end; NaN if a run diverged."""
    runs = [Result.read(folder / run.folder) for run in trial.runs]
    if any(run.diverged for run in runs):
        return math.nan
    return mean(run.final(f"tests.{VALIDATION}.{name}") for run in runs)


def _begun(family: Family, place: int, search: Search, higher_is_better: bool) -> FamilySearch:
    one = FamilySearch(family, place, search)
    one.begin(higher_is_better)
    return one


def _report(folder: Path, trial: Proposal, until: Mapping[str, int], name: str) -> bool:
    """Report the evaluations up to a round that all seeds have. Returns whether all runs ended."""
    results = [Result.read(folder / run.folder) for run in trial.runs]
    found: dict[int, list[float]] = {}
    for run, result in zip(trial.runs, results, strict=True):
        for row in result.rows:
            value = row.get("tests", {}).get(VALIDATION, {}).get(name)
            if value is not None and row["round"] <= until[run.folder]:
                found.setdefault(row["round"], []).append(value)
    for round, values in sorted(found.items()):
        if (
            len(values) == len(results)
            and round not in trial.reported
            and math.isfinite(sum(values))
        ):
            trial.asked.report(mean(values), round)
            trial.reported.add(round)
    return all(result.diverged for result in results)


def add_runs(folder: Path, runs: Sequence[PlannedRun]) -> None:
    """Add the runs of a group to study.json, unless it has them."""
    plan = read_plan(folder)
    known = {run.folder: run for run in plan.runs}
    for run in runs:
        if run.folder in known and not known[run.folder].experiment.same_settings(run.experiment):
            raise RunError(
                f"{folder}: the search does not repeat itself: {run.folder} had other settings. "
                "Was it begun with another version of Optuna? Begin a new sweep."
            )
        if run.folder in known and is_run(folder / run.folder):
            check_planned(folder / run.folder, run.experiment)
    new = [run for run in runs if run.folder not in known]
    if new:
        replace(plan, runs=(*plan.runs, *new)).write(folder)


def _suggested(asked: Any, axis: Axis) -> Any:
    values = axis.values
    if not isinstance(values, Range):
        return values[asked.suggest_categorical(axis.name, range(len(values)))]
    if values.kind == "whole":
        return asked.suggest_int(axis.name, int(values.low), int(values.high))
    drawn = asked.suggest_float(axis.name, values.low, values.high, log=values.kind == "log")
    return float(f"{drawn:.4g}")


def _texts(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON: what is not plain is written as its text."""
    return {name: _text(value) for name, value in settings.items()}


def _text(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return [_text(one) for one in value] if isinstance(value, list | tuple) else repr(value)
