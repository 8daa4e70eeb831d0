"""``sweep``: run several values of settings, and choose between them by the validation set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from fedflat.composition.method import Method
from fedflat.data.cache import opened, opened_once
from fedflat.data.federation import DataSpec
from fedflat.data.info import VALIDATION
from fedflat.errors import MOST_RUNS, SettingError, choice, number
from fedflat.execution.in_process import InProcess
from fedflat.execution.workers import cores
from fedflat.experiments.api import different_seeds, execution_of, experiments_of
from fedflat.experiments.console import reporter_for
from fedflat.experiments.execution_config import ExecutionConfig, executor_text
from fedflat.experiments.experiment import Experiment, data_set
from fedflat.experiments.prepare import prepare
from fedflat.experiments.results.results import Result, Results, ShownTable
from fedflat.experiments.results.scenario import Labels, without_arguments
from fedflat.experiments.run_cost import RunCost, affordable
from fedflat.experiments.run_folder.run_folder import PAUSE, check_pause
from fedflat.experiments.run_folder.study_file import read_plan
from fedflat.experiments.search_space import LISTS, Configuration, families
from fedflat.experiments.study import run_many, write_plan
from fedflat.plot_style import ShownFigure
from fedflat.settings.execution import MACHINE
from fedflat.settings.groups import SETTINGS
from fedflat.settings.signature import refuse_unknown, signed
from fedflat.sweeps.optuna_search import Search, first_group, run_search
from fedflat.sweeps.parallel import run_study
from fedflat.sweeps.selection import Trial, axes, best, heat_map, trials

if TYPE_CHECKING:
    from fedflat.settings.arguments import RunSettings

SEARCHES = ("grid", "random", "optuna")
SHARE = 0.1
"""The share of each client's examples in the validation set, if the data have none."""


class Sweep:
    """The runs of a sweep. It prints as the table of the settings that the validation set chose.

    results
        The runs of all settings.
    pruned
        Folders of the runs that a search by Optuna ended early.
    """

    def __init__(self, results: Sequence[Result], pruned: Collection[Path] = ()) -> None:
        self.results = Results(results)
        self.pruned = frozenset(pruned)
        self.trials: list[Trial] = trials(self.results, self.pruned)

    @property
    def best(self) -> dict[str, Trial]:
        """The chosen setting of each method, by the method without arguments."""
        return best(self.trials)

    @property
    def chosen(self) -> Results:
        """The runs of the chosen settings."""
        return Results(run for trial in self.best.values() for run in trial.runs)

    def table(
        self, style: str = "text", *, every: bool = False, labels: Labels | None = None
    ) -> ShownTable:
        """The table of the chosen settings, or of every setting.

        style
            As for `Results.table`.
        every
            Whether to show every setting that was tried.
        labels
            Names for methods, such as ``{"fedgloss(...)": "FedGloSS"}``.
        """
        return (self.results if every else self.chosen).table(style, labels=labels)

    def heat_map(
        self, method: str | None = None, x: str | None = None, y: str | None = None
    ) -> ShownFigure:
        """The validation score over two settings; the best over the other settings.

        method
            The method without arguments, such as ``"fedsam"``; None: the first.
        x
            The setting of the columns; None: the first that has several values.
        y
            The setting of the rows; None: the second that has several values.
        """
        if method is not None:
            choice("heat map", "method", method, list(self.best))
        return heat_map(self.trials, method or next(iter(self.best)), x, y)

    def axes(self, method: str) -> dict[str, list[Any]]:
        """The settings of a method that have several values, with these.

        method
            The method without arguments, such as ``"fedsam"``.
        """
        return axes(self.trials, method)

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html


@signed(*SETTINGS, *MACHINE)
@opened_once()
def sweep(
    methods: Sequence[Method | str] | Method | str,
    *,
    on: DataSpec | str,
    rounds: int,
    seeds: int | Sequence[int] = 1,
    search: str = "grid",
    trials: int | None = None,
    search_seed: int = 0,
    out: str | Path | None = None,
    jobs: int | None = None,
    quiet: bool = False,
    checkpoint_every: float = PAUSE,
    **settings: Unpack[RunSettings],
) -> Sweep:
    """Run several values of settings, and choose between them by the validation set.

    A setting with several values is a list, such as ``lr=[0.01, 0.1]``, or braces in a text, such
    as ``"fedsam(rho={0.05, 0.1})"``. Other searches than a grid also take ranges:
    ``"fedsam(rho={log(0.01, 1)})"``, ``{uniform(0, 1)}`` and ``{whole(1, 8)}``. Data without a
    validation set give a tenth of each client's examples to one.

    Returns the `Sweep`.

    methods
        Methods, or their texts.
    on
        A data set, or its text such as ``"digits(lda(0))"``.
    rounds
        Number of rounds.
    seeds
        The number of seeds (0, 1, ...), or a list of seeds.
    search
        ``"grid"``: all combinations; ``"random"``: ``trials`` random ones of each method;
        ``"optuna"``: as many, proposed by Optuna from the scores of earlier ones, with pruning. It
        needs ``out`` and the extra ``fedflat[optuna]``.
    trials
        The number of settings of each method, for a search that is not a grid.
    search_seed
        Seed of the search.
    out
        Folder of the runs, which are then run in several processes; None keeps the results in
        memory and runs one after the other.
    jobs
        Runs at a time, if there is a folder; None: one for each core.
    quiet
        Print no progress.
    checkpoint_every
        Least time between two checkpoints, in seconds.
    """
    refuse_unknown(sweep, settings)
    config, others = execution_of(settings)
    names = [methods] if isinstance(methods, str | Method) else methods
    given = {"on": on, "rounds": rounds, **others}
    if search == "optuna" and out is None:
        raise SettingError(
            "sweep: search='optuna' keeps its runs in a folder. Give out='runs/mine'."
        )
    each, tried = planned(names, given, seeds, search, trials, search_seed)
    with reporter_for(None, quiet=quiet) as reporter:
        if out is None:
            return Sweep(run_many(each, config, None, reporter, tried=tried))
        wanted = None
        if search == "optuna":
            wanted = search_of(names, given, seeds, trials, search_seed)
        begin(each, tried, config, Path(out), search=wanted)
        return finish(Path(out), jobs, checkpoint_every, reporter.note)


def planned(
    methods: Sequence[Method | str],
    settings: Mapping[str, Any],
    seeds: int | Sequence[int],
    search: str = "grid",
    trials: int | None = None,
    search_seed: int = 0,
) -> tuple[list[Experiment], list[int]]:
    """The runs of a sweep, and for each how many settings of its method are tried."""
    choice("sweep", "search", search, SEARCHES)
    seeds = different_seeds(seeds, "sweep")
    if not methods:
        raise SettingError(
            "sweep: no method was given. Name one, such as 'fedsam(rho={0.05, 0.1})'."
        )
    if (trials is None) == (search != "grid"):
        raise SettingError(
            "sweep: a random search or one by Optuna needs the number of trials of each method, --trials 20, and a "
            "grid has all of them."
        )
    if trials is not None:
        number("sweep", "trials", trials, low=1, high=MOST_RUNS, whole=True)
    each: list[Configuration] = []
    if search == "optuna":
        wanted = search_of(methods, settings, seeds, trials, search_seed)
        each += chain.from_iterable(first_group(wanted))
    else:
        for family in families(methods, _with_validation(settings), "sweep"):
            each += family.grid() if trials is None else family.sample(trials, search_seed)
    number("sweep", "number of runs", len(each) * len(seeds), low=1, high=MOST_RUNS, whole=True)
    made = experiments_of(each, seeds, "sweep")
    counts = Counter(without_arguments(repr(exp.method)) for exp in made)
    return made, [counts[without_arguments(repr(exp.method))] // len(seeds) for exp in made]


def _with_validation(settings: Mapping[str, Any]) -> dict[str, Any]:
    on = settings["on"]
    if (
        "validation" in settings
        or (isinstance(on, str) and "{" in on)
        or isinstance(on, list | tuple)
    ):
        return {"validation": SHARE, **settings}
    on = data_set(on)
    if VALIDATION in opened(on, 0).tests:
        return {**settings, "on": on}
    return {"validation": SHARE, **settings, "on": on}


def begin(
    each: Sequence[Experiment],
    tried: Sequence[int],
    config: ExecutionConfig,
    out: Path,
    target: float | None = None,
    search: Search | None = None,
) -> None:
    """Check all runs, and write the plan of a sweep into its folder; a ``search`` adds more."""
    if config.undecided:
        config = ExecutionConfig(
            **{**vars(config), "workers": 0, "threads": None, **executor_text(InProcess(1))}
        )
    costs = []
    for exp in each:
        setup = prepare(exp, config.device)
        config.check(setup, out)
        costs.append(RunCost.of(setup))
    each = affordable(each, costs)
    write_plan(each, config, out, target, tried)
    if search is not None:
        if len({exp.rounds for exp in each}) == 1:
            search = search.evaluated(each[0].evaluate.every, each[0].evaluate.last)
        replace(read_plan(out), runs=(), search=search.as_json()).write(out)


def search_of(
    methods: Sequence[Method | str],
    settings: Mapping[str, Any],
    seeds: int | Sequence[int],
    trials: int | None,
    seed: int,
) -> Search:
    if settings.keys() & set(LISTS):
        raise SettingError("sweep: a search by Optuna cannot repeat given cohorts (--replay).")
    texts = [one if isinstance(one, str) else repr(one) for one in methods]
    each = tuple(different_seeds(seeds, "sweep"))
    return Search(texts, _with_validation(settings), each, trials or 0, seed)


def finish(folder: Path, jobs: int | None, checkpoint_every: float, note: Any) -> Sweep:
    """Run what has not ended of a sweep, and read all of it."""
    check_pause(checkpoint_every)
    if jobs is not None:
        number("sweep", "jobs", jobs, low=1, whole=True)
    pruned: set[Path] = set()
    if read_plan(folder).search is None:
        run_study(folder, jobs or cores(), checkpoint_every, note)
    else:
        pruned = run_search(folder, jobs or cores(), checkpoint_every, note)
    return Sweep([Result.read(folder / run.folder) for run in read_plan(folder).runs], pruned)
