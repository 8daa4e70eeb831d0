"""Several cells, one run.

Averages of models (WiMA, EMA, the mean of the clients) are looked at and never fed back. Runs that
differ only by them are the same run, so it is made once, with all of them, and each cell reads its
own model's accuracy. SWA with its cyclic rate changes the training and shares with nobody who has
not the same; neither do two windows of one kind share, since a run keeps one of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fedflat.experiments.experiment import Experiment
from fedflat.papers.reproduce.cells import TableCell
from fedflat.registry.specs import parse
from fedflat.server.averaging import ModelAverage


@dataclass(frozen=True)
class Job:
    """A run, and its folder inside that of the table."""

    folder: str
    experiment: Experiment

    def provides(self, wanted: Experiment) -> bool:
        """Whether another experiment's numbers can be read from it."""
        mine = free(self.experiment)
        return trunk(self.experiment) == trunk(wanted) and all(
            shadow in mine for shadow in free(wanted)
        )

    def joined(self, wanted: Experiment) -> Job | None:
        """The same with another experiment's averages as well; None if that is another run."""
        mine, more = (
            free(self.experiment),
            [shadow for shadow in free(wanted) if shadow not in free(self.experiment)],
        )
        if trunk(self.experiment) != trunk(wanted) or {s.key for s in mine} & {s.key for s in more}:
            return None
        said = " + ".join([repr(self.experiment.method), *map(repr, more)])
        return replace(self, experiment=replace(self.experiment, method=parse(said, "method")))


def free(exp: Experiment) -> list[ModelAverage]:
    """The averages that leave the training as it is."""
    return [shadow for shadow in exp.method.averages if not shadow.changes_lr]


def trunk(exp: Experiment) -> Experiment:
    """The experiment without them."""
    bound = tuple(shadow for shadow in exp.method.averages if shadow.changes_lr)
    return replace(exp, method=replace(exp.method, averages=bound))


def models_of(exp: Experiment) -> list[str]:
    """The names of the models a run of this experiment reports, the last one that has begun first
    of all."""
    return ["server", *(shadow.key for shadow in exp.method.averages)]


def share(
    wanted: Iterable[tuple[TableCell, Experiment]], begun: Iterable[Job]
) -> tuple[list[Job], list[str]]:
    """As few runs as give all the cells, and for each cell its run's folder; runs that were begun
    stay as they are."""
    old, new, folders = list(begun), list[Job](), list[str]()
    for cell, exp in wanted:
        place = next((job.folder for job in [*old, *new] if job.provides(exp)), None)
        for i, job in enumerate(new if place is None else []):
            joined = job.joined(exp)
            if joined is not None:
                new[i], place = joined, job.folder
                break
        if place is None:
            place = _folder(cell.name, exp.seed, {job.folder for job in [*old, *new]})
            new.append(Job(place, exp))
        folders.append(place)
    return [*old, *new], folders


def _folder(name: str, seed: int, taken: set[str]) -> str:
    word = re.sub(r"[^a-z0-9.=+-]+", "-", name.partition("/")[2].lower()).strip("-.")
    names = (f"{word}{ending}/seed-{seed}" for ending in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(one for one in names if one not in taken)
