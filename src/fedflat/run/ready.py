"""An experiment made ready: data opened, model built, everything checked that can be checked before round 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedflat.client.piece import Site
from fedflat.client.task import Task
from fedflat.client.visit import ClientJob
from fedflat.data.federation import Federation
from fedflat.data.sampling import Sampler
from fedflat.run.experiment import Experiment
from fedflat.server.shadows import Scene


@dataclass(frozen=True)
class Ready:
    """What `train` works with."""

    exp: Experiment
    fed: Federation
    source: Callable[[], Federation]
    """The same data for a worker process to open."""
    task: Task
    sampler: Sampler
    job: ClientJob
    scene: Scene
    withheld: int
    """Numbers of the model that stay with the clients."""


def make_ready(exp: Experiment, device: str = "cpu") -> Ready:
    """Open and check; a mistake is refused here, before anything is written."""
    source = exp.source(device)
    fed = source()
    sampler = exp.cohort_sampler()
    sampler.check(fed.population, exp.rounds)
    if exp.method.rule:
        exp.method.rule.check(sampler.smallest(exp.rounds))
    task = exp.open_task(fed, device)
    task.check(fed)
    job = ClientJob(task, exp.pieces(), exp.local, exp.seed)
    for piece in job.pieces:
        piece.check(Site(job.pieces, task.flat.module, task.flat.layout))
    scene = Scene(exp.rounds, fed.population, task.flat.layout)
    withheld = sum(piece.withheld(task.flat.layout) for piece in job.pieces)
    return Ready(exp, fed, source, task, sampler, job, scene, withheld)
