"""Runs as people ask for them: one, several seeds, several methods; begun, stopped and taken up
again.

A single run has its own folder. A study (several methods or seeds) has a folder with a
``study.json`` that names its runs, and one folder for each of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from fedflat.client.learner import ModelLike
from fedflat.data.cache import opened, opened_once
from fedflat.data.federation import DataSpec
from fedflat.data.files.paths import remembered
from fedflat.data.partition_notes import partition_notes
from fedflat.errors import FedflatError, number
from fedflat.execution.client_pool import ExecutorLike
from fedflat.execution.profiling.profiled import Wanted, profiled
from fedflat.experiments.choose_executor import RunLoad
from fedflat.experiments.descriptions import load_descriptions
from fedflat.experiments.execution_config import ExecutionConfig, merge_config
from fedflat.experiments.experiment import Experiment, from_json, refuse_unsayable
from fedflat.experiments.groups import groups_of
from fedflat.experiments.loggers import with_loggers
from fedflat.experiments.prepare import prepare
from fedflat.experiments.progress import OnProgress
from fedflat.experiments.recording import Recorder, recording_callback
from fedflat.experiments.remarks import remarks
from fedflat.experiments.reported_models import reported_models
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.fingerprint import origin_of
from fedflat.experiments.run_folder.groups import damaged_groups
from fedflat.experiments.run_folder.model_files import damaged_models, rewrite_models
from fedflat.experiments.run_folder.plugins_needed import refuse_unmet
from fedflat.experiments.run_folder.record import read_facts, read_rows, same_version
from fedflat.experiments.run_folder.run_folder import (
    PAUSE,
    DiskRunFolder,
    RunFolder,
    Say,
    check_pause,
    make_folder,
)
from fedflat.experiments.run_folder.study_file import (
    Plan,
    check_planned,
    is_run,
    read_plan,
    write_plan,
)
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.state import last_state
from fedflat.experiments.time_left import StudyTime
from fedflat.experiments.train import train
from fedflat.tasks.own_loss import LossFn

Announce = Callable[[Experiment, int, int], OnProgress]
"""Told which run of how many begins; gives whom to tell about its rounds."""


@dataclass(frozen=True)
class Reporter:
    """Whom to tell what happens; silent by default."""

    announce: Announce = lambda exp, place, total: lambda progress: None
    say: Say = lambda text: None
    """What must be known."""
    note: Say = lambda text: None
    """What is good to know."""


def run_one(
    exp: Experiment,
    config: ExecutionConfig,
    out: Path | None,
    reporter: Reporter = Reporter(),
    *,
    checkpoint_every: float = PAUSE,
    profile: Wanted = False,
    until: int | None = None,
) -> Result:
    """Run an experiment from its beginning, in a new folder if ``out`` names one.

    ``checkpoint_every`` is the least time in seconds between two checkpoints. ``profile`` says
    whether to find out where the time goes, and who is given the profile. ``until`` is the round to
    stop after for now, see `train`.
    """
    check_until(until)
    setup = prepare(exp, config.device)
    config.check(setup, out)
    _note_partitions([exp], reporter)
    config = config.settled(config.loads(setup), reporter.note)
    run_folder: RunFolder = RunFolder()
    if out is not None:
        run_folder = _begun(setup, config, out, checkpoint_every, reporter)
    return _carry_out(
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
    """Print what must be known of the partitions; figures are those of the first seed."""
    for exp in each:
        for note in partition_notes(exp.on, opened(exp.on, exp.seed)):
            reporter.note(f"  {note}")


def _begun(
    setup: RunSetup, config: ExecutionConfig, out: Path, pause: float, reporter: Reporter
) -> DiskRunFolder:
    refuse_unsayable(setup.exp)
    return DiskRunFolder.create(
        out,
        setup.exp.as_json(),
        config.as_json(),
        origin=origin_of(setup),
        pause=pause,
        say=reporter.say,
    )


@opened_once()
def run_many(
    experiments: Sequence[Experiment],
    config: ExecutionConfig,
    out: Path | None,
    reporter: Reporter = Reporter(),
    *,
    checkpoint_every: float = PAUSE,
    profile: Wanted = False,
    target: float | None = None,
) -> list[Result]:
    """Run several experiments, one after the other, each in its own folder under ``out``.

    ``target`` is the score to reach; it is kept with the study, for reports.
    """
    check_pause(checkpoint_every)
    loads: list[RunLoad] = []
    for exp in experiments:
        setup = prepare(exp, config.device)
        config.check(setup, out)
        loads += config.loads(setup)
    _note_partitions({repr(exp.on): exp for exp in reversed(experiments)}.values(), reporter)
    config = config.settled(loads, reporter.note)
    names = folder_names(experiments)
    if out is not None:
        for exp in experiments:
            refuse_unsayable(exp)
        make_folder(out)
        runs = [
            {"folder": n, "experiment": e.as_json()}
            for n, e in zip(names, experiments, strict=True)
        ]
        write_plan(out, runs, config.as_json(), target)
    results, study = [], StudyTime([(repr(exp.method), exp.rounds) for exp in experiments])
    for place, (name, exp) in enumerate(zip(names, experiments, strict=True), 1):
        setup = prepare(exp, config.device)
        run_folder = (
            RunFolder()
            if out is None
            else _begun(setup, config, out / name, checkpoint_every, reporter)
        )
        results.append(_carry_out(setup, config, run_folder, reporter, place, study, profile))
    return results


def resume(
    folder: str | Path,
    *,
    on: DataSpec | None = None,
    model: ModelLike | None = None,
    loss: LossFn | None = None,
    reporter: Reporter = Reporter(),
    checkpoint_every: float = PAUSE,
    profile: Wanted = False,
    record: str | None = None,
    logger: str | None = None,
    until: int | None = None,
    executor: ExecutorLike | None = None,
) -> list[Result]:
    """Go on with the run or the study in ``folder``; what is done is read, what was never begun is
    begun.

    ``record``, ``logger`` and ``executor`` are as before if they are None; "none" ends the first
    two. ``until`` is the round to stop after for now, see `train`.
    """
    check_pause(checkpoint_every)
    check_until(until)
    folder = Path(folder)
    plan = _plan(folder)
    now = {"record": record, "logger": logger, "executor": executor}
    config = merge_config(plan["how"], now)
    results, study = [], _study_time(folder, plan, until)
    with remembered(plan["place"]):
        for place, entry in enumerate(plan["runs"], 1):
            exp = from_json(entry["experiment"], on=on, model=model, loss=loss)
            at = folder / entry["folder"]
            if not is_run(at):
                run_folder = _begun(
                    prepare(exp, config.device), config, at, checkpoint_every, reporter
                )
            else:
                run_folder = DiskRunFolder.open(at, pause=checkpoint_every, say=reporter.say)
            with closing(run_folder):
                check_planned(at, entry["experiment"])
                refuse_unmet(run_folder.facts["experiment"].get("plugins", ()), exact=True)
                own = merge_config(run_folder.facts["how"], now)
                if run_folder.status != "running":
                    results.append(_looked_after(exp, own, run_folder, reporter))
                    continue
                setup = prepare(exp, own.device)
                run_folder.compare(origin_of(setup))
                own = own.settled(own.loads(setup), reporter.note)
                if own.as_json() != run_folder.facts["how"]:
                    run_folder.remember(how=own.as_json())
                results.append(
                    _carry_out(setup, own, run_folder, reporter, place, study, profile, until)
                )
    return results


def _plan(folder: Path) -> Plan:
    if not is_run(folder):
        plan = read_plan(folder)
        same_version(folder, plan["fedflat"])
        return plan
    facts = read_facts(folder)
    same_version(folder, facts["fedflat"])
    runs = [{"folder": ".", "experiment": facts["experiment"]}]
    return {"runs": runs, "how": facts["how"], "place": facts["origin"].get("place")}


def _study_time(folder: Path, plan: Plan, until: int | None) -> StudyTime:
    """Estimates how long the runs of a plan take that are not done."""
    runs = []
    for entry in plan["runs"]:
        exp, rounds = entry["experiment"], 0
        with suppress(FedflatError):  # a damaged run is refused when its turn comes
            at = folder / entry["folder"]
            if not is_run(at) or read_facts(at)["status"] == "running":
                rounds = min(exp["rounds"], until or exp["rounds"])
        runs.append((exp["method"], rounds))
    return StudyTime(runs)


def _looked_after(
    exp: Experiment, config: ExecutionConfig, run_folder: DiskRunFolder, reporter: Reporter
) -> Result:
    """The result of a run that has ended; files of models or groups that were damaged are written
    again."""
    result, identity = Result.read(run_folder.folder), run_folder.facts["identity"]
    read_rows(run_folder.folder, "recorded", run_folder.facts)
    lost = damaged_models(run_folder.folder, run_folder.facts)
    if lost or damaged_groups(run_folder.folder, identity):
        run = last_state(run_folder.folder, identity) if lost else None
        setup = load_descriptions(prepare(exp, config.device), run_folder.folder, identity)
        run_folder.compare(origin_of(setup))
        run_folder.write_groups(groups_of(exp.topology, setup.server.population, setup.fed))
        if run is not None:
            rewrite_models(
                run_folder.folder,
                run_folder.facts,
                reported_models(setup).weights(setup.job.learner, run),
                lost,
            )
            reporter.say(
                f"{run_folder.folder}: written again from the checkpoint: the model {' and '.join(map(repr, lost))}."
            )
    return result


def _carry_out(
    setup: RunSetup,
    config: ExecutionConfig,
    run_folder: RunFolder,
    reporter: Reporter,
    place: int,
    study: StudyTime,
    profile: Wanted,
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
            return train(
                setup,
                executor=config.make(),
                run_folder=run_folder,
                on_progress=counted(on_progress),
                state_memory=config.state_memory,
                callbacks=recording_callback(config.record),
                until=until,
            )
    finally:
        run_folder.close()


def check_until(until: int | None) -> None:
    """Refuse to stop after no round at all."""
    if until is not None:
        number("run", "until", until, low=1, whole=True)


def folder_names(experiments: Sequence[Experiment]) -> list[str]:
    """A short, different name for each run: its place, its method, its seed."""
    methods = list(dict.fromkeys(repr(exp.method) for exp in experiments))
    return [
        f"{methods.index(repr(exp.method)) + 1:02d}-{_slug(repr(exp.method))}/seed-{exp.seed}"
        for exp in experiments
    ]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.=]+", "-", text.lower()).strip("-")[:60]
