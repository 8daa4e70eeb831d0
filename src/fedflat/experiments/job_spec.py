"""The job of a run as text, and a job built from this text, for clients on other machines.

The texts are those of run.json: method, model, data, local training. Objects that exist only in
Python cannot be sent. A client builds its module from the shape of the examples and needs no test
set. The executor `Loopback` sends every job, request and reply through the wire format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedflat.client.attacker import attacked, attackers_in
from fedflat.client.learner import Learner
from fedflat.client.piece import Piece
from fedflat.client.state_store import StateStore
from fedflat.client.training import ClientJob
from fedflat.core.json_schema import check
from fedflat.data.examples import arguments
from fedflat.data.federation import DataSpec, Federation
from fedflat.errors import MOST_PROCESSES, FedflatError, SettingError, number
from fedflat.execution.client_pool import Source, threads
from fedflat.execution.client_runtime import ClientRuntime
from fedflat.execution.loopback import LoopbackPool, StatefulLoopbackPool
from fedflat.execution.wire_format import JobSpec, decode, encode
from fedflat.experiments.experiment import Experiment, from_json
from fedflat.experiments.run_folder.schema import EXPERIMENT
from fedflat.files import Damaged
from fedflat.registry.specs import TextSpec, parse, register

JOB_SPEC = {
    "experiment": EXPERIMENT,
    "shape": [int],
    "outputs": int,
    "measures": [str],
    "mean_examples": float,
    "shows": bool,
    "attackers": {"*": str},
}


def spec_of_job(job: ClientJob) -> JobSpec:
    """The job in texts; refused if they would not make it again."""
    missing = [name for name in ("on", "model", "loss") if job.experiment.get(name) is None]
    if missing:
        raise SettingError(
            "the run cannot be sent to clients on other machines: its "
            f"{' and its '.join(missing)} can only be given in Python. Name them as text, or run "
            "the clients here (executor='in-process')."
        )
    own = from_json(dict(job.experiment)).pieces()
    measures = job.pieces[len(own) :]
    if job.pieces[: len(own)] != own or any(_measure(repr(piece)) != piece for piece in measures):
        raise SettingError(
            "the run cannot be sent to clients on other machines: "
            f"{job.experiment['method']!r} and the recorded metrics do not give its "
            "pieces again. Register the method and the metrics, or run the clients here (executor='in-process')."
        )
    texts = {
        "experiment": dict(job.experiment),
        "shape": list(job.learner.shape),
        "outputs": job.learner.outputs,
        "measures": [repr(piece) for piece in measures],
        "mean_examples": job.mean_examples,
        "shows": job.returns_models,
        "attackers": {
            str(client): repr(attacker) for client, attacker in attackers_in(job).items()
        },
    }
    sample = tuple(torch.zeros_like(x) for x in arguments(job.learner.sample))
    return JobSpec(texts, job.shared, sample)


def job_of_spec(spec: JobSpec, *, device: str = "cpu") -> ClientJob:
    """Build the job that a spec describes; no data are opened."""
    texts: Mapping[str, Any] = spec.settings
    try:
        check(texts, JOB_SPEC)
    except Damaged as error:
        raise _not_built(error) from None
    exp = from_json(texts["experiment"])
    measures = [_measure(text) for text in texts["measures"]]
    if not all(isinstance(piece, Piece) for piece in measures):
        raise _not_built(f"of {texts['measures']} not all can be measured here")
    job = ClientJob(
        _learner(exp, spec, device),
        (*exp.pieces(), *measures),
        exp.local,
        exp.seed,
        texts["mean_examples"],
        texts["shows"],
        texts["experiment"],
        spec.shared,
    )
    return attacked(
        job,
        {int(client): parse(text, "attacker") for client, text in texts["attackers"].items()},
    )


def data_of_spec(spec: JobSpec, *, on: DataSpec | None = None, device: str = "cpu") -> Federation:
    """Open the data that a spec names, or the client's own, ``on``."""
    exp = from_json(spec.settings["experiment"], on=on)
    return exp.source(device)()


def _learner(exp: Experiment, spec: JobSpec, device: str) -> Learner:
    sample = tuple(x.to(device) for x in spec.sample)
    if not sample:
        raise _not_built("it has no sample of the inputs")
    return exp.build_learner(
        tuple(spec.settings["shape"]),
        spec.settings["outputs"],
        sample[0] if len(sample) == 1 else sample,
        device,
    )


def _not_built(why: object) -> SettingError:
    return SettingError(
        f"the job of a run cannot be built: {why}. Use the same version of fedflat on both sides."
    )


def _measure(text: str) -> Any:
    try:
        return parse(text, "measure")
    except FedflatError:
        return None


@register("executor", "loopback")
@dataclass(frozen=True, repr=False)
class Loopback(TextSpec):
    """One client after the other in this process, behind the wire format.

    The clients build their module, their job and their data from text, as on another machine: use
    it to see whether a method works over a network. The results have the same bits as
    ``InProcess`` with as many threads.

    Args:
        states: A folder in which each client keeps its own states. None: the server keeps them, and
            they travel with requests and replies.
        threads: Threads inside an operation.
    """

    states: str | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        number("loopback", "threads", self.threads, low=1, high=MOST_PROCESSES, whole=True)

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[LoopbackPool]:
        """Open a pool whose clients know only what the messages contain."""
        spec = decode(encode(spec_of_job(job)))
        assert isinstance(spec, JobSpec)
        device = job.learner.device
        far_job, far_fed = job_of_spec(spec, device=device), data_of_spec(spec, device=device)
        with threads(self.threads):
            if self.states is None:
                yield LoopbackPool(ClientRuntime(far_job, far_fed.data))
            else:
                yield StatefulLoopbackPool(ClientRuntime(far_job, far_fed.data, self._store))

    def _store(self, client: int) -> StateStore:
        assert self.states is not None
        folder = Path(self.states)
        folder.mkdir(parents=True, exist_ok=True)
        return StateStore(folder / f"client-{client}")
