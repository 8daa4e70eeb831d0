"""What all requests of a run have in common, as text, and made again from it: for clients elsewhere.

The text is that of run.json: method, model, data, local work. Objects that exist only in Python cannot
be sent. A client builds its module from the shapes of the examples; it needs no test set for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from fedflat.client.learner import Learner
from fedflat.client.piece import Piece
from fedflat.client.training import ClientJob
from fedflat.core.json_schema import check
from fedflat.data.batch import arguments
from fedflat.data.federation import DataSpec, Federation
from fedflat.errors import FedflatError, SettingError
from fedflat.execution.wire_format import JobSpec
from fedflat.experiments.experiment import Experiment, from_json
from fedflat.experiments.run_folder.schema import EXPERIMENT
from fedflat.files import Damaged
from fedflat.registry.specs import parse

ORDER = {
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
            f"the run cannot be sent to clients elsewhere: its {' and its '.join(missing)} can "
            "only be given in Python. Name them in text, or make the visits here "
            "(executor='in-process')."
        )
    own = from_json(dict(job.experiment)).pieces()
    measures = job.pieces[len(own) :]
    if job.pieces[: len(own)] != own or any(_measure(repr(piece)) != piece for piece in measures):
        raise SettingError(
            f"the run cannot be sent to clients elsewhere: {job.experiment['method']!r} and what "
            "is measured do not make its pieces again. Register the method and what it measures, "
            "or make the visits here (executor='in-process')."
        )
    texts = {
        "experiment": dict(job.experiment),
        "shape": list(job.learner.shape),
        "outputs": job.learner.outputs,
        "measures": [repr(piece) for piece in measures],
        "mean_examples": job.mean_examples,
        "shows": job.returns_models,
        "attackers": {str(client): repr(attacker) for client, attacker in job.attackers.items()},
    }
    sample = tuple(torch.zeros_like(x) for x in arguments(job.learner.sample))
    return JobSpec(texts, job.shared, sample)


def job_of_spec(spec: JobSpec, *, device: str = "cpu") -> ClientJob:
    """Build the job that a spec describes; no data are opened."""
    texts: Mapping[str, Any] = spec.settings
    try:
        check(texts, ORDER)
    except Damaged as error:
        raise _unfollowed(error) from None
    exp = from_json(texts["experiment"])
    measures = [_measure(text) for text in texts["measures"]]
    if not all(isinstance(piece, Piece) for piece in measures):
        raise _unfollowed(f"of {texts['measures']} not all can be measured here")
    return ClientJob(
        _learner(exp, spec, device),
        (*exp.pieces(), *measures),
        exp.local,
        exp.seed,
        texts["mean_examples"],
        texts["shows"],
        texts["experiment"],
        {int(client): parse(text, "attacker") for client, text in texts["attackers"].items()},
        spec.shared,
    )


def data_of_spec(spec: JobSpec, *, on: DataSpec | None = None, device: str = "cpu") -> Federation:
    """Open the data that a spec names, or the client's own, ``on``."""
    exp = from_json(spec.settings["experiment"], on=on)
    return exp.source(device)()


def _learner(exp: Experiment, spec: JobSpec, device: str) -> Learner:
    sample = tuple(x.to(device) for x in spec.sample)
    if not sample:
        raise _unfollowed("it has no sample of the inputs")
    return Learner(
        exp.model,
        tuple(spec.settings["shape"]),
        spec.settings["outputs"],
        seed=exp.seed,
        task=exp.task,
        loss=exp.loss,
        dtype=exp.dtype,
        device=device,
        layout=exp.layout,
        convolutions=exp.convolutions,
        sample=sample[0] if len(sample) == 1 else sample,
        pieces=exp.method.client,
    )


def _unfollowed(why: object) -> SettingError:
    return SettingError(
        f"the order of a run cannot be followed: {why}. Use the same version of fedflat on both "
        "sides."
    )


def _measure(text: str) -> Any:
    try:
        return parse(text, "measure")
    except FedflatError:
        return None
