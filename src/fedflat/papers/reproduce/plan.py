"""The folder of a table: what shall be run, for which cells, to which round.

    reproduce.json      the cells with their numbers, the commands, and which run each cell is read from, with a digest
    study.json          the runs, as of any study: `fedflat resume`, `report`, `dashboard` and `analyse` take the folder
    ROW/seed-S/         the runs
    table.md, ...       what has come of it

The same command again goes on; another one for the same folder adds cells and seeds, or moves the
round to stop after, and runs only what it asks for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fedflat.core.json_schema import damaged, read_checked
from fedflat.errors import RunError, SettingError, number, shown
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.experiment import Experiment, from_json
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.experiments.run_folder.record import read_facts, same_version
from fedflat.experiments.run_folder.schema import HEADLINE
from fedflat.experiments.run_folder.signed import verified, write_signed
from fedflat.experiments.run_folder.study_file import check_inside, read_plan, write_plan
from fedflat.files import Damaged, hold, unwritable
from fedflat.papers.reproduce.cells import TableCell
from fedflat.papers.reproduce.provenance import provenance
from fedflat.papers.reproduce.run_sharing import Job, models_of, share
from fedflat.tasks.headline import ACCURACY, Headline
from fedflat.version import __version__

FILE = "reproduce.json"
ADVICE = "Put it back from a copy, or start anew with another --out."
HOW = ExecutionConfig(executor="in-process", threads=1)
"""One client after the other, one thread: as many runs at a time as there are cores."""


@dataclass(frozen=True)
class PlanRequest:
    """How far to go."""

    seeds: int | Sequence[int] | None = None
    rounds: int | None = None
    share: float | None = None
    stretch: bool = False

    def __post_init__(self) -> None:
        if self.rounds is not None:
            number("reproduce", "rounds", self.rounds, low=1, whole=True)
        if self.share is not None:
            number("reproduce", "share", self.share, low=0, high=1, open_low=True)

    def stop(self, cell: TableCell) -> int:
        """The round to stop after."""
        if self.share is not None:
            return max(1, round(self.share * cell.rounds))
        return cell.rounds if self.rounds is None else min(self.rounds, cell.rounds)


@dataclass(frozen=True)
class PlannedCell:
    """A cell in a folder."""

    cell: TableCell
    stop: int
    """After so many rounds it is looked at."""
    stretched: bool
    """Whether its schedules were stretched, so that the stop is the end of a shorter run."""
    models: list[str]
    """The models it may report: the last one that has begun counts."""
    last: int
    """Over how many of the last rounds its score is averaged."""
    folders: dict[int, str] = field(default_factory=dict)
    """Its runs, by seed."""
    headline: Headline = ACCURACY
    """What its runs are judged by."""

    @property
    def whole(self) -> bool:
        """Whether the paper's whole schedule is run."""
        return self.stop == self.cell.rounds and not self.stretched


@dataclass(frozen=True)
class TablePlan:
    """All of it."""

    folder: Path
    title: str
    source: str
    commands: list[dict[str, Any]]
    """What was typed, when, and with which fedflat on which machine."""
    entries: list[PlannedCell]
    jobs: list[Job]
    now: frozenset[str] | None = field(default=None, compare=False)
    """The folders of the runs that this command asks for; None: all."""

    def until(self, job: Job) -> int:
        """The round after which a run stops for now: where the last of its cells wants it to."""
        return max(entry.stop for entry in self.entries if job.folder in entry.folders.values())

    def waiting(self) -> list[Job]:
        """The runs asked for that have not come to their end, nor to a stop that is written
        down."""
        return [
            job
            for job in self.jobs
            if (self.now is None or job.folder in self.now) and not self._reached(job)
        ]

    def _reached(self, job: Job) -> bool:
        run = self.folder / job.folder
        if not (run / "run.json").exists():
            return False
        stop = self.until(job)
        stopped = (
            stop < job.experiment.rounds
            and max(Store(run / "checkpoint").rounds(), default=0) >= stop
        )
        try:
            return stopped or read_facts(run)["status"] != "running"
        except RunError:  # which the run itself will say
            return False

    def added(self, cells: Iterable[TableCell], asked: PlanRequest, command: str) -> TablePlan:
        """With more cells, or the same to another round."""
        entries = {entry.cell.name: entry for entry in self.entries}
        wanted: list[tuple[TableCell, Experiment]] = []
        for cell in cells:
            stop, before = asked.stop(cell), entries.get(cell.name)
            stretched = asked.stretch and stop < cell.rounds
            if before and (
                before.cell != cell
                or before.stretched != stretched
                or (stretched and before.stop != stop)
            ):
                raise RunError(
                    f"{self.folder} has {cell.name} already, with other settings or a stretched schedule. --out names "
                    "another folder."
                )
            made = [
                cell.experiment(seed, stop if stretched else None)
                for seed in cell.seeded(asked.seeds)
            ]
            wanted += [(cell, exp) for exp in made]
            last = min(made[0].evaluate.last, stop)
            old = before.folders if before else {}
            judged = made[0].headline
            _refuse_another(cell, judged)
            entries[cell.name] = PlannedCell(
                cell, stop, stretched, models_of(made[0]), last, dict(old), judged
            )
        jobs, folders = share(wanted, self.jobs)
        for (cell, exp), folder in zip(wanted, folders, strict=True):
            entries[cell.name].folders[exp.seed] = folder
        return replace(
            self, entries=list(entries.values()), jobs=jobs, now=frozenset(folders)
        ).said(command)

    def said(self, command: str) -> TablePlan:
        """With one more command noted, unless it is the last one again."""
        made = {"command": command, **provenance()}
        if self.commands and {**self.commands[-1], "when": None} == {**made, "when": None}:
            return self
        return replace(
            self, commands=[*self.commands, {**made, "when": time.strftime("%Y-%m-%dT%H:%M:%S%z")}]
        )

    def write(self) -> None:
        """See it to the disk."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(self.folder, error) from error
        runs = [{"folder": job.folder, "experiment": job.experiment.as_json()} for job in self.jobs]
        write_plan(self.folder, runs, asdict(HOW))
        facts: dict[str, Any] = {
            "fedflat": __version__,
            "title": self.title,
            "source": self.source,
            "commands": self.commands,
            "entries": [asdict(entry) for entry in self.entries],
        }
        write_signed(self.folder / FILE, facts, indent=2)


SCHEMA = {
    "fedflat": str,
    "title": str,
    "source": str,
    "commands": [
        {
            "command": str,
            "when": str,
            "fedflat": str,
            "commit?": (str, None),
            "processor_name?": (str, None),
            "python": str,
            "torch": str,
            "system": str,
            "processor": str,
            "cores": (int, None),
            "*": object,
        }
    ],
    "entries": [
        {
            "cell": {
                "name": str,
                "arguments": {"rounds": int, "method": str, "on": str, "*": object},
                "reported": (float, None),
                "spread": (float, None),
                "diverges": bool,
                "table": str,
                "note": str,
                "seeds": [int],
                "measure": str,
            },
            "stop": int,
            "stretched": bool,
            "models": [str],
            "last": int,
            "folders": {"*": str},
            "headline?": HEADLINE,
        }
    ],
    "digest": str,
}
"""What reproduce.json says."""


def plan_facts(folder: Path) -> dict[str, Any]:
    """The content of reproduce.json, if it is as it was written."""
    path = folder / FILE
    if not os.path.lexists(path):
        raise RunError(
            f"{folder} is no folder of `fedflat reproduce`: it has no {FILE}. Check the path."
        )
    found = read_checked(path, SCHEMA, ADVICE)
    if not found["entries"]:
        raise damaged(path, "it has no cell", ADVICE)
    try:
        return verified(found)
    except Damaged as error:
        raise damaged(path, error, ADVICE) from None


def open_plan(folder: Path, *, reading: bool = False) -> TablePlan:
    """What a folder says; a plan of another version may be read and not gone on with."""
    path, facts = folder / FILE, plan_facts(folder)
    try:
        entries = [_entry(folder, saved) for saved in facts["entries"]]
    except (Damaged, ValueError, TypeError) as error:
        raise damaged(path, error, ADVICE) from None
    plan = TablePlan(folder, facts["title"], facts["source"], facts["commands"], entries, [])
    if reading:
        return plan
    same_version(folder, facts["fedflat"])
    return replace(plan, jobs=_jobs(path, entries))


def _jobs(path: Path, entries: list[PlannedCell]) -> list[Job]:
    """The runs of the study beside the plan that a cell is read from.

    study.json is written first. If the process was killed between the two files, study.json has
    runs that no cell names yet. They are left out here, and the same command adds them again.
    """
    named = {folder for entry in entries for folder in entry.folders.values()}
    runs = {run["folder"]: run["experiment"] for run in read_plan(path.parent)["runs"]}
    if unknown := sorted(named - set(runs)):
        raise damaged(path, f"study.json has no run {shown(unknown[0])}", ADVICE)
    return [
        Job(folder, from_json(experiment)) for folder, experiment in runs.items() if folder in named
    ]


def new_plan(folder: Path, title: str, source: str) -> TablePlan:
    """An empty one, for a folder in which nothing else is."""
    if folder.exists() and (
        not folder.is_dir() or any(path.name != "lock" for path in folder.iterdir())
    ):
        raise RunError(
            f"{folder} is already there and holds something else. --out names another folder."
        )
    return TablePlan(folder, title, source, [], [], [])


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder: nobody else starts its runs meanwhile."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise unwritable(folder, error) from error
    with hold(folder):
        yield


def _entry(folder: Path, saved: dict[str, Any]) -> PlannedCell:
    cell = TableCell(**{**saved["cell"], "seeds": tuple(saved["cell"]["seeds"])})
    folders = {int(seed): str(place) for seed, place in saved["folders"].items()}
    for place in folders.values():
        check_inside(folder, place)
    if not folders or saved["stop"] < 1 or cell.rounds < 1:
        raise Damaged(f"{shown(cell.name)} has no run or no round")
    judged = Headline.from_json(saved.get("headline"))
    return PlannedCell(
        cell, saved["stop"], saved["stretched"], saved["models"], saved["last"], folders, judged
    )


def _refuse_another(cell: TableCell, judged: Headline) -> None:
    """A number that its run does not measure cannot be compared with."""
    if cell.measure not in (judged.name, "personal") and not cell.test:
        raise SettingError(
            f"reproduce: {cell.name} reports {cell.measure!r}, but its run is judged by {judged.name!r}. Say another "
            "task, or another measure."
        )
