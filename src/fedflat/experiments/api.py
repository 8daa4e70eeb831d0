"""The library in one call: ``run``, ``compare`` and ``resume``, with the settings of the command
line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from fedflat.client.local import LocalTraining
from fedflat.composition.method import Method
from fedflat.core.schedules import schedule_of
from fedflat.data.cache import opened, opened_once
from fedflat.data.federation import DataSpec
from fedflat.errors import MOST_RUNS, SettingError, number, shown
from fedflat.execution.profiling.profiled import ProfileOption
from fedflat.experiments import study
from fedflat.experiments.console import reporter_for
from fedflat.experiments.evaluation_schedule import EvaluationSchedule
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.experiment import Experiment, data_set, default_model, task_of
from fedflat.experiments.results.results import Result, Results
from fedflat.experiments.run_folder.run_folder import PAUSE
from fedflat.experiments.search_space import Configuration, families
from fedflat.experiments.study import Reporter, run_many, run_one
from fedflat.registry.plain_values import plain
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler
from fedflat.settings.execution import MACHINE
from fedflat.settings.groups import SETTINGS
from fedflat.settings.signature import refuse_unknown, signed
from fedflat.tasks.wrapped import LossFn

if TYPE_CHECKING:
    from fedflat.settings.arguments import RunSettings, Settings


@signed(*SETTINGS)
def experiment(
    method: Method | str,
    on: DataSpec | str,
    *,
    rounds: int,
    seed: int = 0,
    loss: LossFn | None = None,
    **settings: Unpack[Settings],
) -> Experiment:
    """Describe one run; methods, data, models and schedules may be given as text.

    Returns the experiment.

    method
        A method, or its text such as ``"fedavg"``.
    on
        A data set, or its text such as ``"digits(lda(0))"``.
    rounds
        Number of rounds.
    seed
        Seed of the run.
    loss
        ``loss(outputs, targets)``, the mean loss of a batch, in place of the task's own.
    """
    refuse_unknown(experiment, settings)
    number("run", "rounds", rounds, low=1, whole=True)
    on = data_set(on)
    own, local, sampler = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    evaluate = dict[str, Any]()
    groups = {"local": local, "sampler": sampler, "evaluate": evaluate}
    for one in SETTINGS:
        given: Any = settings.get(one.name)
        if given is None and (one.name not in settings or one.python_default is None):
            continue
        if one.kind == "Scalar" and isinstance(given, str):
            given = schedule_of(one.name, given)
        *group, name = one.path
        groups.get("".join(group), own)[name] = given
    own["task"] = task_of(own.get("task", on.usual_task))
    model = own.pop("model", None)
    if model is None:
        model = on.usual_model or default_model(own["task"], opened(on, seed).shape)
    return Experiment(
        method=parse(method, "method") if isinstance(method, str) else method,
        on=on,
        model=parse(model, "model") if isinstance(model, str) else model,
        rounds=rounds,
        local=LocalTraining(**local),
        sampler=ClientSampler(**sampler),
        evaluate=EvaluationSchedule.of(rounds, evaluate),
        seed=seed,
        loss=loss,
        **own,
    )


@signed(*SETTINGS, *MACHINE)
@opened_once()
def run(
    method: Method | str,
    on: DataSpec | str,
    *,
    rounds: int,
    seed: int = 0,
    out: str | Path | None = None,
    quiet: bool = False,
    reporter: Reporter | None = None,
    checkpoint_every: float = PAUSE,
    profile: ProfileOption = False,
    loss: LossFn | None = None,
    **settings: Unpack[RunSettings],
) -> Result:
    """Run one method once.

    Returns its `Result`.

    >>> from fedflat import digits, fedsam, lda
    >>> on = digits(lda(0), clients=20)
    >>> result = run(fedsam(rho=0.05), on=on, rounds=2, clients_per_round=2, quiet=True)
    >>> result.status, result.rows[-1]["round"]
    ('done', 2)

    method
        A method, or its text such as ``"fedavg"``.
    on
        A data set, or its text such as ``"digits(lda(0))"``.
    rounds
        Number of rounds.
    seed
        Seed of the run.
    out
        Run folder; None keeps the results in memory.
    quiet
        Print no progress.
    reporter
        Receives progress in place of the console.
    checkpoint_every
        Least time between two checkpoints, in seconds.
    profile
        Print where the time went, and write it into ``out``; a function receives the `Profile`.
    loss
        ``loss(outputs, targets)``, the mean loss of a batch, in place of the task's own.
    """
    refuse_unknown(run, settings)
    config, others = execution_of(settings)
    exp = experiment(method, on, rounds=rounds, seed=seed, loss=loss, **others)
    folder = None if out is None else Path(out)
    with reporter_for(reporter, quiet=quiet) as reporter:
        return run_one(
            exp, config, folder, reporter, checkpoint_every=checkpoint_every, profile=profile
        )


@signed(*SETTINGS, *MACHINE)
@opened_once()
def compare(
    methods: Sequence[Method | str],
    on: DataSpec | str,
    *,
    rounds: int,
    seeds: int | Sequence[int] = 1,
    out: str | Path | None = None,
    quiet: bool = False,
    reporter: Reporter | None = None,
    checkpoint_every: float = PAUSE,
    profile: ProfileOption = False,
    loss: LossFn | None = None,
    **settings: Unpack[RunSettings],
) -> Results:
    """Run several methods with the same seeds, clients and batches.

    A setting that is a list, such as ``lr=[0.01, 0.1]``, and a choice in a text, such as
    ``"fedsam(rho={0.05, 0.1})"``, are run with each of their values. `sweep` also chooses between
    them, by a validation set.

    Returns the `Results`, which print as a table.

    methods
        Methods, or their texts such as ``"fedavg"``.
    on
        A data set, or its text such as ``"digits(lda(0))"``.
    rounds
        Number of rounds.
    seeds
        The number of seeds (0, 1, ...), or a list of seeds.
    out
        Run folder; None keeps the results in memory.
    quiet
        Print no progress.
    reporter
        Receives progress in place of the console.
    checkpoint_every
        Least time between two checkpoints, in seconds.
    profile
        Print where the time went, and write it into ``out``; a function receives the `Profile`.
    loss
        ``loss(outputs, targets)``, the mean loss of a batch, in place of the task's own.
    """
    refuse_unknown(compare, settings)
    config, others = execution_of(settings)
    each = experiments(methods, on, seeds, rounds=rounds, loss=loss, **others)
    folder = None if out is None else Path(out)
    with reporter_for(reporter, quiet=quiet) as reporter:
        return Results(
            run_many(
                each, config, folder, reporter, checkpoint_every=checkpoint_every, profile=profile
            )
        )


def resume(
    folder: str | Path, *, quiet: bool = False, reporter: Reporter | None = None, **settings: Any
) -> Results:
    """Continue the run or the study in a folder. Finished runs are read; missing runs are started.

    Returns the `Results` of all runs in the folder.

    folder
        Folder of a run or of a study.
    quiet
        Print no progress.
    reporter
        Receives progress in place of the console.
    settings
        Arguments of `fedflat.experiments.study.resume`: ``on``, ``model`` and ``loss`` if they
        were given in Python, ``checkpoint_every``, ``profile``, ``record``, ``logger``, ``until``,
        ``on_round_end``.
    """
    with reporter_for(reporter, quiet=quiet) as reporter:
        return Results(study.resume(folder, reporter=reporter, **settings))


def execution_of(settings: Mapping[str, Any]) -> tuple[ExecutionConfig, dict[str, Any]]:
    others: dict[str, Any] = dict(settings)
    return ExecutionConfig(
        **{one.name: others.pop(one.name) for one in MACHINE if one.name in others}
    ), others


def experiments(
    methods: Sequence[Method | str], on: DataSpec | str, seeds: int | Sequence[int], **settings: Any
) -> list[Experiment]:
    """Every method with every seed, and every value of the settings that have several."""
    seeds = different_seeds(seeds)
    if not methods:
        raise SettingError("compare: no method was given. Name at least one, such as 'fedavg'.")
    each = [one for family in families(methods, {"on": on, **settings}) for one in family.grid()]
    return experiments_of(each, seeds)


def experiments_of(
    each: Sequence[Configuration], seeds: Sequence[int], who: str = "compare"
) -> list[Experiment]:
    data = {repr(one.settings["on"]): data_set(one.settings["on"]) for one in each}
    read = [
        (parse(one.method, "method"), one) if isinstance(one.method, str) else (one.method, one)
        for one in each
    ]
    made = [
        (method, {**one.settings, "on": data[repr(one.settings["on"])]}) for method, one in read
    ]
    for place, (method, _) in enumerate(made):
        if made[place] in made[:place]:
            raise SettingError(f"{who}: {method!r} was given twice. Leave one of them out.")
    return [experiment(method, seed=seed, **others) for method, others in made for seed in seeds]


def different_seeds(seeds: int | Sequence[int], who: str = "compare") -> Sequence[int]:
    """The seeds that were given, as how many or as a list."""
    seeds = plain(seeds)
    if isinstance(seeds, int):
        number(who, "seeds", seeds, low=1, high=MOST_RUNS, whole=True)
        seeds = range(seeds)
    if not isinstance(seeds, Sequence) or len(set(seeds)) < len(seeds) or not len(seeds):
        raise SettingError(
            f"{who}: seeds must be how many, or a list of different ones, at least one, found "
            f"{shown(seeds)}."
        )
    return seeds
