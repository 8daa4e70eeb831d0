"""The folder of a table: its runs, their cells, and the round to stop after.

    reproduce.json      the cells with their numbers, the commands, and the run of each cell
    study.json          the runs, as in any study: `fedflat resume`, `report`, `dashboard` and
                        `analyse` accept the folder
    ROW/seed-S/         the runs
    table.md, ...       the results

The same command continues the runs. Another command for the same folder adds cells and seeds or
changes the round to stop after, and runs only what it selects.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedflat.core.json_schema import damaged, read_checked
from fedflat.errors import RunError, SettingError, number, shown
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.experiments.run_folder.record import read_record, same_version
from fedflat.experiments.run_folder.schema import HEADLINE, verified, write_signed
from fedflat.experiments.run_folder.study_file import PlannedRun, check_inside, read_plan
from fedflat.experiments.run_folder.study_file import new_plan as new_study
from fedflat.files import Damaged, hold, unwritable
from fedflat.papers.presets.preset import FLATNESS, TO_TARGET
from fedflat.papers.reproduce.cells import TableCell
from fedflat.papers.reproduce.flatness_file import measured
from fedflat.papers.reproduce.run_sharing import Job, models_of, provenance, share
from fedflat.settings.execution import ExecutionSettings
from fedflat.tasks.headline import ACCURACY, Headline
from fedflat.version import __version__

if TYPE_CHECKING:
    from fedflat.experiments.experiment import Experiment

FILE = "reproduce.json"
ADVICE = "Put it back from a copy, or start anew with another --out."
EXECUTION = ExecutionSettings(executor="in-process", threads=1)
"""One client after the other on one thread. As many runs as cores are made in parallel."""


@dataclass(frozen=True)
class PlanRequest:
    """Which seeds to run, and for how many rounds."""

    seeds: int | Sequence[int] | None = None
    rounds: int | None = None
    share: float | None = None
    stretch: bool = False
    examples: int | None = None
    """Number of examples on which curvature is measured. None for all."""

    def __post_init__(self) -> None:
        if self.examples is not None:
            number("reproduce", "examples", self.examples, low=1, whole=True)
        if self.rounds is not None:
            number("reproduce", "rounds", self.rounds, low=1, whole=True)
        if self.share is not None:
            number("reproduce", "share", self.share, low=0, high=1, open_low=True)

    def stop(self, cell: TableCell) -> int:
        """Return the round to stop after."""
        if self.share is not None:
            return max(1, round(self.share * cell.rounds))
        return cell.rounds if self.rounds is None else min(self.rounds, cell.rounds)


@dataclass(frozen=True)
class PlannedCell:
    cell: TableCell
    stop: int
    """Round to stop after."""
    stretched: bool
    """True if its schedules were stretched: the stop is then the end of a shorter run."""
    models: list[str]
    """The models it may report. The last one that has values counts."""
    last: int
    """Number of last rounds that its score is averaged over."""
    folders: dict[int, str] = field(default_factory=dict)
    """Its runs by seed."""
    headline: Headline = ACCURACY
    """The headline score of its runs."""
    examples: int | None = None
    """Number of examples on which its curvature is measured. None for all."""

    @property
    def shown(self) -> Headline:
        """What its number is: the headline score, or another measure of the run."""
        measure = self.cell.measure
        return TO_TARGET.get(measure) or FLATNESS.get(measure) or self.headline

    @property
    def whole(self) -> bool:
        """True if the paper's whole schedule is run."""
        return self.stop == self.cell.rounds and not self.stretched


@dataclass(frozen=True)
class TablePlan:
    """All cells and runs of a folder."""

    folder: Path
    title: str
    source: str
    commands: list[dict[str, Any]]
    """The commands, with time, version and machine."""
    entries: list[PlannedCell]
    jobs: list[Job]
    now: frozenset[str] | None = field(default=None, compare=False)
    """Folders of the runs that this command selects. None for all."""

    def until(self, job: Job) -> int:
        """Return the round after which a run stops: the largest stop of its cells."""
        return max(entry.stop for entry in self.entries if job.folder in entry.folders.values())

    def waiting(self) -> list[Job]:
        """Return the selected runs that are not finished and have no checkpoint at their stop."""
        return [
            job
            for job in self.jobs
            if (self.now is None or job.folder in self.now) and not self._is_done(job)
        ]

    def _is_done(self, job: Job) -> bool:
        run = self.folder / job.folder
        if not (run / "run.json").exists():
            return False
        stop = self.until(job)
        if self._unmeasured(job):
            return False
        stopped = (
            stop < job.experiment.rounds
            and max(Store(run / "checkpoint").rounds(), default=0) >= stop
        )
        try:
            return stopped or not read_record(run).running
        except RunError:  # the run itself reports it
            return False

    def _unmeasured(self, job: Job) -> bool:
        """True if a run that has not diverged lacks the curvature of one of its cells."""
        run = self.folder / job.folder
        entries = [
            entry
            for entry in self.entries
            if entry.cell.needs_curvature
            and entry.stop == self.until(job)
            and job.folder in entry.folders.values()
        ]
        if all(measured(run, entry) is not None for entry in entries):
            return False
        try:
            return read_record(run).status != "diverged"
        except RunError:  # the run itself reports it
            return True

    def added(self, cells: Iterable[TableCell], request: PlanRequest, command: str) -> TablePlan:
        """Return the plan with more cells, or with the same cells to another round."""
        entries = {entry.cell.name: entry for entry in self.entries}
        experiments: list[tuple[TableCell, Experiment]] = []
        for cell in cells:
            stop, before = request.stop(cell), entries.get(cell.name)
            stretched = request.stretch and stop < cell.rounds
            if before and (
                before.cell != cell
                or before.stretched != stretched
                or (stretched and before.stop != stop)
            ):
                raise RunError(
                    f"{self.folder} already has {cell.name}, with other settings or a stretched "
                    "schedule. Choose another folder with --out."
                )
            own = [
                cell.experiment(seed, stop if stretched else None)
                for seed in cell.seeded(request.seeds)
            ]
            experiments += [(cell, exp) for exp in own]
            last = min(own[0].evaluate.last, stop)
            old = before.folders if before else {}
            cell_headline = own[0].headline
            _check_measure(cell, cell_headline)
            examples = request.examples or (before.examples if before else None)
            examples = examples if cell.needs_curvature else None
            entries[cell.name] = PlannedCell(
                cell, stop, stretched, models_of(own[0]), last, dict(old), cell_headline, examples
            )
        jobs, folders = share(experiments, self.jobs)
        for (cell, exp), folder in zip(experiments, folders, strict=True):
            entries[cell.name].folders[exp.seed] = folder
        return replace(
            self, entries=list(entries.values()), jobs=jobs, now=frozenset(folders)
        ).with_command(command)

    def with_command(self, command: str) -> TablePlan:
        """Return the plan with one more command, unless it repeats the last one."""
        made = {"command": command, **provenance()}
        if self.commands and {**self.commands[-1], "when": None} == {**made, "when": None}:
            return self
        return replace(
            self, commands=[*self.commands, {**made, "when": time.strftime("%Y-%m-%dT%H:%M:%S%z")}]
        )

    def write(self) -> None:
        """Write reproduce.json and study.json."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(self.folder, error) from error
        runs = [PlannedRun(job.folder, job.experiment.texts()) for job in self.jobs]
        new_study(runs, asdict(EXECUTION)).write(self.folder)
        self.write_cells()

    def write_cells(self) -> None:
        content: dict[str, Any] = {
            "fedflat": __version__,
            "title": self.title,
            "source": self.source,
            "commands": self.commands,
            "entries": [asdict(entry) for entry in self.entries],
        }
        write_signed(self.folder / FILE, content, indent=2)


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
                "target?": (float, str, None),
                "at?": float,
                "where?": str,
                "unreached?": bool,
            },
            "stop": int,
            "stretched": bool,
            "models": [str],
            "last": int,
            "folders": {"*": str},
            "headline?": HEADLINE,
            "examples?": (int, None),
        }
    ],
    "digest": str,
}
"""Schema of reproduce.json."""


def open_plan(folder: Path, *, reading: bool = False) -> TablePlan:
    """Return the plan of a folder. Refuse a damaged file.

    With `reading`, plans of other versions are accepted, but have no jobs.
    """
    path = folder / FILE
    if not os.path.lexists(path):
        raise RunError(
            f"{folder} is not a folder of `fedflat reproduce`: it has no {FILE}. Check the path."
        )
    saved = read_checked(path, SCHEMA, ADVICE)
    if not saved["entries"]:
        raise damaged(path, "it has no cell", ADVICE)
    try:
        verified(saved)
        entries = [_entry(folder, entry) for entry in saved["entries"]]
    except (Damaged, ValueError, TypeError) as error:
        raise damaged(path, error, ADVICE) from None
    plan = TablePlan(folder, saved["title"], saved["source"], saved["commands"], entries, [])
    if reading:
        return plan
    same_version(folder, saved["fedflat"])
    return replace(plan, jobs=_jobs(path, entries))


def _jobs(path: Path, entries: list[PlannedCell]) -> list[Job]:
    """Return the runs in study.json that belong to a cell.

    study.json is written first. If the process was killed between the two files, study.json has
    runs that belong to no cell yet. They are left out here, and the same command adds them again.
    """
    from fedflat.experiments.experiment import from_texts  # needs torch; tables do not

    used = {folder for entry in entries for folder in entry.folders.values()}
    runs = {run.folder: run.experiment for run in read_plan(path.parent).runs}
    if unknown := sorted(used - set(runs)):
        raise damaged(path, f"study.json has no run {shown(unknown[0])}", ADVICE)
    return [
        Job(folder, from_texts(experiment)) for folder, experiment in runs.items() if folder in used
    ]


def new_plan(folder: Path, title: str, source: str) -> TablePlan:
    """Return an empty plan. Refuse a folder that contains anything else."""
    if folder.exists() and (
        not folder.is_dir() or any(path.name != "lock" for path in folder.iterdir())
    ):
        raise RunError(
            f"{folder} exists and contains other files. Choose another folder with --out."
        )
    return TablePlan(folder, title, source, [], [], [])


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock the folder, so that no other process starts its runs."""
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
    headline = Headline.from_json(saved.get("headline"))
    return PlannedCell(
        cell,
        saved["stop"],
        saved["stretched"],
        saved["models"],
        saved["last"],
        folders,
        headline,
        saved.get("examples"),
    )


def _check_measure(cell: TableCell, headline: Headline) -> None:
    """Raise `SettingError` if the run of a cell does not measure its number."""
    if cell.needs_target or cell.needs_curvature:
        return
    if cell.measure not in (headline.name, "personal") and not cell.test:
        raise SettingError(
            f"reproduce: {cell.name} reports {cell.measure!r}, but the headline of its run is "
            f"{headline.name!r}. Use another task or another measure."
        )
