"""Runs as people ask for them: one, several seeds, several methods; begun, stopped and taken up again.

A single run has its own folder. A study (several methods or seeds) has a folder with a ``study.json`` that
names its runs, and one folder for each of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from fedflat.client.learner import ModelLike
from fedflat.data.federation import DataSpec
from fedflat.data.files.places import remembered
from fedflat.data.opening import opened, opened_once
from fedflat.data.partition_notes import partition_notes
from fedflat.errors import FedflatError, number
from fedflat.executors.crew import ExecutorLike
from fedflat.folder.facts import read_facts, read_rows, same_version
from fedflat.folder.groups import damaged_groups
from fedflat.folder.plugins_needed import refuse_unmet
from fedflat.folder.study_file import Plan, check_planned, is_run, read_plan, write_plan
from fedflat.observe import Watching, as_listener
from fedflat.observe.trackers import tracked
from fedflat.profiling.profiled import Wanted, profiled
from fedflat.running.auto import Load
from fedflat.running.descriptions import recalled
from fedflat.running.experiment import Experiment, from_json, refuse_unsayable
from fedflat.running.fingerprint import origin_of
from fedflat.running.model_files import damaged_models, rewrite_models
from fedflat.running.prepare import Ready, make_ready
from fedflat.running.reporting import named_models
from fedflat.running.results import Result
from fedflat.running.run_folder import PAUSE, FolderBook, RunBook, Say, check_pause, make_folder
from fedflat.running.state import last_state
from fedflat.running.ticks import Tell
from fedflat.running.train import train
from fedflat.studies.how import How, how_of
from fedflat.studies.time_left import StudyTime
from fedflat.tasks.own_loss import LossFn

Announce = Callable[[Experiment, int, int], Tell]
"""Told which run of how many begins; gives whom to tell about its rounds."""


@dataclass(frozen=True)
class Voice:
    """Whom to tell what happens; silent by default."""

    announce: Announce = lambda exp, place, total: lambda tick: None
    say: Say = lambda text: None
    """What must be known."""
    note: Say = lambda text: None
    """What is good to know."""


def run_one(
    exp: Experiment, how: How, out: Path | None, voice: Voice = Voice(), *, checkpoint_every: float = PAUSE,
    profile: Wanted = False, until: int | None = None,
) -> Result:  # fmt: skip
    """Run an experiment from its beginning, in a new folder if ``out`` names one.

    ``checkpoint_every`` is the least time in seconds between two checkpoints. ``profile`` says whether to find out
    where the time goes, and who is given the profile. ``until`` is the round to stop after for now, see `train`.
    """
    check_until(until)
    ready = make_ready(exp, how.device)
    how.check(ready, out)
    _note_partitions([exp], voice)
    how = how.settled(how.loads(ready), voice.note)
    book: RunBook = RunBook()
    if out is not None:
        book = _begun(ready, how, out, checkpoint_every, voice)
    return _carry_out(ready, how, book, voice, 1, StudyTime([(repr(exp.method), exp.rounds)]), profile, until)


def _note_partitions(each: Iterable[Experiment], voice: Voice) -> None:
    """Print what must be known of the partitions; figures are those of the first seed."""
    for exp in each:
        for note in partition_notes(exp.on, opened(exp.on, exp.seed)):
            voice.note(f"  {note}")


def _begun(ready: Ready, how: How, out: Path, pause: float, voice: Voice) -> FolderBook:
    refuse_unsayable(ready.exp)
    return FolderBook.create(
        out, ready.exp.as_json(), how.as_json(), origin=origin_of(ready), pause=pause, say=voice.say
    )  # fmt: skip


@opened_once()
def run_many(
    experiments: Sequence[Experiment], how: How, out: Path | None, voice: Voice = Voice(), *,
    checkpoint_every: float = PAUSE, profile: Wanted = False, target: float | None = None,
) -> list[Result]:  # fmt: skip
    """Run several experiments, one after the other, each in its own folder under ``out``.

    ``target`` is the score to reach; it is kept with the study, for reports.
    """
    check_pause(checkpoint_every)
    loads: list[Load] = []
    for exp in experiments:
        ready = make_ready(exp, how.device)
        how.check(ready, out)
        loads += how.loads(ready)
    _note_partitions({repr(exp.on): exp for exp in reversed(experiments)}.values(), voice)
    how = how.settled(loads, voice.note)
    names = folder_names(experiments)
    if out is not None:
        for exp in experiments:
            refuse_unsayable(exp)
        make_folder(out)
        runs = [{"folder": n, "experiment": e.as_json()} for n, e in zip(names, experiments, strict=True)]
        write_plan(out, runs, how.as_json(), target)
    results, study = [], StudyTime([(repr(exp.method), exp.rounds) for exp in experiments])
    for place, (name, exp) in enumerate(zip(names, experiments, strict=True), 1):
        ready = make_ready(exp, how.device)
        book = RunBook() if out is None else _begun(ready, how, out / name, checkpoint_every, voice)
        results.append(_carry_out(ready, how, book, voice, place, study, profile))
    return results


def resume(
    folder: str | Path, *, on: DataSpec | None = None, model: ModelLike | None = None, loss: LossFn | None = None,
    voice: Voice = Voice(), checkpoint_every: float = PAUSE, profile: Wanted = False, watch: str | None = None,
    track: str | None = None, until: int | None = None, executor: ExecutorLike | None = None,
) -> list[Result]:  # fmt: skip
    """Go on with the run or the study in ``folder``; what is done is read, what was never begun is begun.

    ``watch``, ``track`` and ``executor`` are as before if they are None; "none" ends the first two. ``until`` is the
    round to stop after for now, see `train`.
    """
    check_pause(checkpoint_every)
    check_until(until)
    folder = Path(folder)
    plan = _plan(folder)
    now = {"watch": watch, "track": track, "executor": executor}
    how = how_of(plan["how"], now)
    results, study = [], _study_time(folder, plan, until)
    with remembered(plan["place"]):
        for place, entry in enumerate(plan["runs"], 1):
            exp = from_json(entry["experiment"], on=on, model=model, loss=loss)
            at = folder / entry["folder"]
            if not is_run(at):
                book = _begun(make_ready(exp, how.device), how, at, checkpoint_every, voice)
            else:
                book = FolderBook.open(at, pause=checkpoint_every, say=voice.say)
            with closing(book):
                check_planned(at, entry["experiment"])
                refuse_unmet(book.facts["experiment"].get("plugins", ()), exact=True)
                own = how_of(book.facts["how"], now)
                if book.status != "running":
                    results.append(_looked_after(exp, own, book, voice))
                    continue
                ready = make_ready(exp, own.device)
                book.compare(origin_of(ready))
                own = own.settled(own.loads(ready), voice.note)
                if own.as_json() != book.facts["how"]:
                    book.remember(how=own.as_json())
                results.append(_carry_out(ready, own, book, voice, place, study, profile, until))
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


def _looked_after(exp: Experiment, how: How, book: FolderBook, voice: Voice) -> Result:
    """The result of a run that has ended; files of models or groups that were damaged are written again."""
    result, identity = Result.read(book.folder), book.facts["identity"]
    read_rows(book.folder, "watch", book.facts)
    lost = damaged_models(book.folder, book.facts)
    if lost or damaged_groups(book.folder, identity):
        run = last_state(book.folder, identity) if lost else None
        ready = recalled(make_ready(exp, how.device), book.folder, identity)
        book.compare(origin_of(ready))
        book.gather(ready)
        if run is not None:
            rewrite_models(book.folder, book.facts, named_models(ready, run), lost)
            voice.say(f"{book.folder}: written again from the checkpoint: the model {' and '.join(map(repr, lost))}.")
    return result


def _carry_out(
    ready: Ready, how: How, book: RunBook, voice: Voice, place: int, study: StudyTime, profile: Wanted,
    until: int | None = None,
) -> Result:  # fmt: skip
    try:
        how.check(ready, book.place)
        book = tracked(book, how.track)
        tell = study.timed(place, voice.announce(ready.exp, place, len(study.runs)))
        for remark in ready.remarks(how.state_memory) + Watching.of(ready, how.watch).costs():
            voice.note(f"  {remark}")
        with profiled(profile, book.place and book.place.parent) as counted:
            return train(
                ready, executor=how.make(), book=book, tell=counted(tell), state_memory=how.state_memory,
                listening=as_listener(how.watch), until=until,
            )  # fmt: skip
    finally:
        book.close()


def check_until(until: int | None) -> None:
    """Refuse to stop after no round at all."""
    if until is not None:
        number("run", "until", until, low=1, whole=True)


def folder_names(experiments: Sequence[Experiment]) -> list[str]:
    """A short, different name for each run: its place, its method, its seed."""
    methods = list(dict.fromkeys(repr(exp.method) for exp in experiments))
    return [
        f"{methods.index(repr(exp.method)) + 1:02d}-{_slug(repr(exp.method))}/seed-{exp.seed}" for exp in experiments
    ]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.=]+", "-", text.lower()).strip("-")[:60]
