"""Runs and studies: start one run or several, and resume them.

A single run has its own folder. A study (several methods or seeds) has a folder with a
``study.json`` that names its runs, and one folder for each of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fedflat.client.learner import ModelLike
from fedflat.data.cache import opened, opened_once
from fedflat.data.federation import DataSpec
from fedflat.data.files.paths import remembered
from fedflat.errors import FedflatError, PrintLine, number
from fedflat.execution.client_pool import ExecutorLike
from fedflat.execution.client_states import ClientStates
from fedflat.execution.profiling.profiled import ProfileOption, profiled
from fedflat.experiments.callbacks import OnRoundEnd, functions_of
from fedflat.experiments.descriptions import load_descriptions
from fedflat.experiments.execution_config import ExecutionConfig, RunLoad, merge_config
from fedflat.experiments.experiment import Experiment, from_texts, require_text_form
from fedflat.experiments.groups import groups_of
from fedflat.experiments.loggers import with_loggers
from fedflat.experiments.model_selection import final_weights
from fedflat.experiments.predictions import RunModels
from fedflat.experiments.prepare import prepare
from fedflat.experiments.progress import OnProgress, StudyTime
from fedflat.experiments.recording import Recorder, recording_callback
from fedflat.experiments.results.frame import differences, settings
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_cost import (
    RunCost,
    affordable,
    estimate,
    partition_notes,
    remarks,
    with_schedule,
)
from fedflat.experiments.run_folder.fingerprint import origin_of
from fedflat.experiments.run_folder.groups import damaged_groups
from fedflat.experiments.run_folder.model_files import damaged_models, rewrite_models
from fedflat.experiments.run_folder.plugins_needed import refuse_unmet
from fedflat.experiments.run_folder.record import read_record, read_rows, same_version
from fedflat.experiments.run_folder.run_folder import (
    PAUSE,
    DiskRunFolder,
    RunFolder,
    check_pause,
    make_folder,
)
from fedflat.experiments.run_folder.study_file import (
    PlannedRun,
    StudyPlan,
    check_planned,
    is_run,
    new_plan,
    read_plan,
)
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.state import last_state
from fedflat.experiments.train import train
from fedflat.tasks.wrapped import LossFn

Announce = Callable[[Experiment, int, int], OnProgress]
"""Called when a run begins, with its place and the number of runs; returns its progress
callback."""


@dataclass(frozen=True)
class Reporter:
    """Callbacks for progress and messages; silent by default."""

    announce: Announce = lambda exp, place, total: lambda progress: None
    print_line: PrintLine = lambda text: None
    """Called with messages that are shown even with ``--quiet``, such as damaged files."""
    note: PrintLine = lambda text: None
    """Called with remarks about the run."""


def run_one(
    exp: Experiment,
    config: ExecutionConfig,
    out: Path | None,
    reporter: Reporter = Reporter(),
    *,
    checkpoint_every: float = PAUSE,
    profile: ProfileOption = False,
    until: int | None = None,
    tried: int = 1,
) -> Result:
    """Run an experiment from its beginning, in a new folder if ``out`` names one.

    Args:
        exp: the experiment.
        config: how to execute it.
        out: the run folder, which must not exist; None: results are kept in memory only.
        reporter: callbacks for progress and messages.
        checkpoint_every: least time between two checkpoints, in seconds.
        profile: whether to measure where the time goes, or a function that receives the profile.
        until: the round to stop after for now, see `train`.
        tried: how many settings of its method a sweep tries, if it belongs to one.

    Returns:
        The result, as far as the run got.
    """
    check_until(until)
    setup = prepare(exp, config.device)
    config.check(setup, out)
    _note_partitions([exp], reporter)
    cost = RunCost.of(setup)
    scheduled = with_schedule(exp, cost)
    if scheduled.evaluate != exp.evaluate:
        exp, setup = scheduled, prepare(scheduled, config.device)
    config = config.resolved(config.loads(setup), reporter.note)
    reporter.note(f"  {estimate([(exp, cost)], config.make())}")
    run_folder: RunFolder = RunFolder()
    if out is not None:
        run_folder = _create(setup, config, out, checkpoint_every, reporter, tried)
    return _train(
        setup,
        config,
        run_folder,
        reporter,
        1,
        StudyTime([(repr(exp.method), exp.rounds)]),
        profile,
        until,
    )


def _note_partitions(each: Iterable[Experiment], reporter: Reporter) -> None:
    """Report the notes of the partitions, with figures of the first seed."""
    for exp in each:
        for note in partition_notes(exp.on, opened(exp.on, exp.seed)):
            reporter.note(f"  {note}")


def _create(
    setup: RunSetup,
    config: ExecutionConfig,
    out: Path,
    pause: float,
    reporter: Reporter,
    tried: int = 1,
) -> DiskRunFolder:
    require_text_form(setup.exp)
    return DiskRunFolder.create(
        out,
        setup.exp.texts(),
        config.as_json(),
        origin=origin_of(setup),
        info=setup.exp.info(),
        tried=tried,
        pause=pause,
        print_line=reporter.print_line,
    )


@opened_once()
def run_many(
    experiments: Sequence[Experiment],
    config: ExecutionConfig,
    out: Path | None,
    reporter: Reporter = Reporter(),
    *,
    checkpoint_every: float = PAUSE,
    profile: ProfileOption = False,
    target: float | None = None,
    tried: Sequence[int] | None = None,
) -> list[Result]:
    """Run several experiments, one after the other, each in its own folder under ``out``.

    ``target`` is the score to reach; it is stored with the study, for reports. ``tried`` says for
    each experiment how many settings of its method a sweep tries. Other arguments are those of
    `run_one`.
    """
    check_pause(checkpoint_every)
    loads: list[RunLoad] = []
    costs: list[RunCost] = []
    for exp in experiments:
        setup = prepare(exp, config.device)
        config.check(setup, out)
        loads += config.loads(setup)
        costs.append(RunCost.of(setup))
    experiments = affordable(experiments, costs)
    _note_partitions({repr(exp.on): exp for exp in reversed(experiments)}.values(), reporter)
    config = config.resolved(loads, reporter.note)
    each = list(zip(experiments, costs, strict=True))
    reporter.note(f"  {estimate(each, config.make())}")
    tried = tried or [1] * len(experiments)
    names = folder_names(experiments)
    if out is not None:
        write_plan(experiments, config, out, target, tried)
    results, study = [], StudyTime([(repr(exp.method), exp.rounds) for exp in experiments])
    for place, (name, exp, count) in enumerate(zip(names, experiments, tried, strict=True), 1):
        setup = prepare(exp, config.device)
        run_folder = (
            RunFolder()
            if out is None
            else _create(setup, config, out / name, checkpoint_every, reporter, count)
        )
        result = _train(setup, config, run_folder, reporter, place, study, profile)
        results.append(replace(result, tried=count))
    return results


def write_plan(
    experiments: Sequence[Experiment],
    config: ExecutionConfig,
    out: Path,
    target: float | None,
    tried: Sequence[int],
) -> None:
    """Make the folder of a study, with a study.json that names its runs."""
    for exp in experiments:
        require_text_form(exp)
    make_folder(out)
    runs = [
        PlannedRun(name, exp.texts(), count)
        for name, exp, count in zip(folder_names(experiments), experiments, tried, strict=True)
    ]
    new_plan(runs, config.as_json(), target).write(out)


def resume(
    folder: str | Path,
    *,
    on: DataSpec | None = None,
    model: ModelLike | None = None,
    loss: LossFn | None = None,
    reporter: Reporter = Reporter(),
    checkpoint_every: float = PAUSE,
    profile: ProfileOption = False,
    record: str | None = None,
    logger: str | None = None,
    until: int | None = None,
    executor: ExecutorLike | None = None,
    on_round_end: OnRoundEnd | None = None,
) -> list[Result]:
    """Continue the run or the study in ``folder``. Finished runs are read, missing ones are
    started.

    Args:
        folder: the folder of a run or a study.
        on, model, loss: required if they were given in Python when the run began.
        reporter: callbacks for progress and messages.
        checkpoint_every: least time between two checkpoints, in seconds.
        profile: whether to measure where the time goes, or a function that receives the profile.
        record, logger: metrics and loggers; None: as before; "none": none from now on.
        until: the round to stop after for now, see `train`.
        executor: where clients are trained; None: as before.
        on_round_end: required if it was given when the run began; an empty list: none from now on.

    Returns:
        One result for each run of the study.
    """
    check_pause(checkpoint_every)
    check_until(until)
    folder = Path(folder)
    plan = _plan(folder)
    now = {"record": record, "logger": logger, "executor": executor, "on_round_end": on_round_end}
    config = merge_config(plan.execution, now)
    results, study = [], _study_time(folder, plan, until)
    with remembered(plan.place):
        for place, entry in enumerate(plan.runs, 1):
            exp = from_texts(entry.experiment, on=on, model=model, loss=loss)
            at = folder / entry.folder
            if not is_run(at):
                setup = prepare(exp, config.device)
                run_folder = _create(setup, config, at, checkpoint_every, reporter, entry.tried)
            else:
                run_folder = DiskRunFolder.open(
                    at, pause=checkpoint_every, print_line=reporter.print_line
                )
            with closing(run_folder):
                check_planned(at, entry.experiment)
                refuse_unmet(run_folder.record.experiment.plugins, exact=True)
                own = merge_config(run_folder.record.execution, now)
                if run_folder.status != "running":
                    results.append(_finished(exp, own, run_folder, reporter))
                    continue
                setup = prepare(exp, own.device)
                run_folder.compare(origin_of(setup))
                own = own.resolved(own.loads(setup), reporter.note)
                run_folder.change_execution(own.as_json())
                results.append(
                    _train(setup, own, run_folder, reporter, place, study, profile, until)
                )
    return results


def end_run(folder: Path) -> None:
    """End a run that was stopped before its last round; nothing is done if it has ended."""
    with closing(DiskRunFolder.open(folder)) as run_folder:
        if run_folder.status != "running":
            return
        config = merge_config(run_folder.record.execution, {})
        with remembered(run_folder.record.origin.place):
            setup = prepare(from_texts(run_folder.record.experiment), config.device)
            setup = load_descriptions(setup, folder, run_folder.record.identity)
        run = run_folder.resume(ClientStates())
        assert run is not None
        run_folder.finish("early", final_weights(setup, run))


def _plan(folder: Path) -> StudyPlan:
    """The plan of a study; of a single run, one that names only this run."""
    if not is_run(folder):
        plan = read_plan(folder)
        same_version(folder, plan.version)
        return plan
    record = read_record(folder)
    same_version(folder, record.version)
    return StudyPlan((PlannedRun(".", record.experiment),), record.execution, record.origin.place)


def _study_time(folder: Path, plan: StudyPlan, until: int | None) -> StudyTime:
    """Estimates how long the unfinished runs of a plan take."""
    runs = []
    for entry in plan.runs:
        rounds = 0
        with suppress(FedflatError):  # a damaged run is refused when its turn comes
            at = folder / entry.folder
            if not is_run(at) or read_record(at).running:
                rounds = min(entry.experiment.rounds, until or entry.experiment.rounds)
        runs.append((entry.experiment.method, rounds))
    return StudyTime(runs)


def _finished(
    exp: Experiment, config: ExecutionConfig, run_folder: DiskRunFolder, reporter: Reporter
) -> Result:
    """The result of a finished run; damaged files of models or groups are written again."""
    record, folder = run_folder.record, run_folder.folder
    module = None if record.experiment.model is not None else exp.model
    result = replace(Result.read(folder), models=RunModels.in_folder(folder, module))
    identity, end = record.identity, record.end
    assert end is not None
    read_rows(run_folder.folder, "recorded", record)
    lost = damaged_models(run_folder.folder, end)
    if lost or damaged_groups(run_folder.folder, identity):
        run = last_state(run_folder.folder, identity) if lost else None
        setup = load_descriptions(prepare(exp, config.device), run_folder.folder, identity)
        run_folder.compare(origin_of(setup))
        run_folder.write_groups(groups_of(exp.topology, setup.server.population, setup.fed))
        if run is not None:
            rewrite_models(
                run_folder.folder,
                end,
                final_weights(setup, run),
                lost,
            )
            reporter.print_line(
                f"{run_folder.folder}: damaged and written again from the checkpoint: the model "
                f"{' and '.join(map(repr, lost))}."
            )
    return result


def _train(
    setup: RunSetup,
    config: ExecutionConfig,
    run_folder: RunFolder,
    reporter: Reporter,
    place: int,
    study: StudyTime,
    profile: ProfileOption,
    until: int | None = None,
) -> Result:
    try:
        config.check(setup, run_folder.place)
        recorder = Recorder.of(setup, config.record)
        run_folder.describe(recorder.labels)
        run_folder = with_loggers(run_folder, config.logger)
        on_progress = study.timed(place, reporter.announce(setup.exp, place, len(study.runs)))
        for remark in remarks(setup, config.state_memory) + recorder.costs():
            reporter.note(f"  {remark}")
        with profiled(profile, run_folder.place and run_folder.place.parent) as counted:
            result = train(
                setup,
                executor=config.make(),
                run_folder=run_folder,
                on_progress=counted(on_progress),
                state_memory=config.state_memory,
                callbacks=recording_callback(config.record),
                on_round_end=functions_of(config.on_round_end),
                until=until,
            )
            return replace(result, folder=run_folder.place and run_folder.place.parent)
    finally:
        run_folder.close()


def check_until(until: int | None) -> None:
    """Refuse a round to stop after that is below 1."""
    if until is not None:
        number("run", "until", until, low=1, whole=True)


def folder_names(experiments: Sequence[Experiment]) -> list[str]:
    """A short, different name for each run: its place, its method and the settings that differ
    between runs of the method, its seed."""
    texts = [exp.texts() for exp in experiments]
    apart = differences([(one.method, settings(one)) for one in texts])
    called = [
        " ".join([one.method, *(f"{name}={value}" for name, value in own.items())])
        for one, own in zip(texts, apart, strict=True)
    ]
    places = {name: place for place, name in enumerate(dict.fromkeys(called), 1)}
    return [
        f"{places[name]:02d}-{slug(name)}/seed-{exp.seed}"
        for name, exp in zip(called, experiments, strict=True)
    ]


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.=]+", "-", text.lower()).strip("-")[:60]
