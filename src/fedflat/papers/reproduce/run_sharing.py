"""One run for several cells, and where the program that made it comes from.

Averaged models (WiMA, EMA, the mean of the clients) are evaluated and never sent to clients. Runs
that differ only in them are the same run. So it is made once, with all of them, and each cell reads
the score of its own model. SWA with its cyclic learning rate changes the training, so it is shared
only with runs that have the same. Two averages of one kind cannot share a run either, because a run
has at most one of each kind.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fedflat
from fedflat.experiments.run_folder.record import machine
from fedflat.papers.reproduce.cells import TableCell
from fedflat.registry.specs import parse
from fedflat.version import __version__

if TYPE_CHECKING:
    from fedflat.experiments.experiment import Experiment
    from fedflat.server.averaging import ModelAverage


@dataclass(frozen=True)
class Job:
    """A run, and its folder inside that of the table."""

    folder: str
    experiment: Experiment

    def provides(self, wanted: Experiment) -> bool:
        """True if the numbers of another experiment can be read from it."""
        mine = passive_averages(self.experiment)
        return self._trains_like(wanted) and all(one in mine for one in passive_averages(wanted))

    def with_averages_of(self, wanted: Experiment) -> Job | None:
        """Return the job with the averages of another experiment added.

        None if that is another run.
        """
        mine = passive_averages(self.experiment)
        more = [one for one in passive_averages(wanted) if one not in mine]
        if not self._trains_like(wanted) or {one.key for one in mine} & {one.key for one in more}:
            return None
        text = " + ".join([repr(self.experiment.method), *map(repr, more)])
        return replace(self, experiment=replace(self.experiment, method=parse(text, "method")))

    def _trains_like(self, wanted: Experiment) -> bool:
        return without_passive_averages(self.experiment) == without_passive_averages(wanted)


def passive_averages(exp: Experiment) -> list[ModelAverage]:
    """Return the averaged models that do not change the training."""
    return [one for one in exp.method.averages if not one.changes_lr]


def without_passive_averages(exp: Experiment) -> Experiment:
    bound = tuple(one for one in exp.method.averages if one.changes_lr)
    return replace(exp, method=replace(exp.method, averages=bound))


def models_of(exp: Experiment) -> list[str]:
    """Return the names of the models that a run reports. The last one that has started counts."""
    return ["server", *(one.key for one in exp.method.averages)]


def share(
    experiments: Iterable[tuple[TableCell, Experiment]], existing: Iterable[Job]
) -> tuple[list[Job], list[str]]:
    """Return as few runs as needed for all cells, and the folder of each cell's run.

    `existing` runs are not changed.
    """
    old, new, folders = list(existing), list[Job](), list[str]()
    for cell, exp in experiments:
        place = next((job.folder for job in [*old, *new] if job.provides(exp)), None)
        for i, job in enumerate(new if place is None else []):
            merged = job.with_averages_of(exp)
            if merged is not None:
                new[i], place = merged, job.folder
                break
        if place is None:
            place = _folder(cell.name, exp.seed, {job.folder for job in [*old, *new]})
            new.append(Job(place, exp))
        folders.append(place)
    return [*old, *new], folders


def _folder(name: str, seed: int, used: set[str]) -> str:
    word = re.sub(r"[^a-z0-9.=+-]+", "-", name.partition("/")[2].lower()).strip("-.")
    names = (f"{word}{ending}/seed-{seed}" for ending in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(one for one in names if one not in used)


def provenance() -> dict[str, Any]:
    """Return version, commit and machine."""
    return {"fedflat": __version__, "commit": commit(), **machine(), "processor_name": _processor()}


@cache
def commit() -> str | None:
    """Return the commit of the source, with a + if it was changed. None if it is not a checkout."""
    home = Path(fedflat.__file__).parent
    try:
        _git(home, "ls-files", "--error-unmatch", "version.py")
        changed = _git(home, "status", "--porcelain", "--", ".")
        return _git(home, "rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(home: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(home), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None
    )
