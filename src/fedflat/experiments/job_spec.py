"""What all visits of a run have in common, as texts, and made again from them: for clients
elsewhere.

The texts are those of run.json: method, model, data, local work. What only Python can say cannot be
ordered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedflat.client.piece import Piece
from fedflat.client.training import ClientJob
from fedflat.core.json_schema import check
from fedflat.data.federation import DataSpec, Federation
from fedflat.errors import FedflatError, SettingError
from fedflat.execution.wire_format import JobSpec
from fedflat.experiments.experiment import from_json
from fedflat.experiments.run_folder.schema import EXPERIMENT
from fedflat.files import Damaged
from fedflat.registry.specs import parse

ORDER = {
    "experiment": EXPERIMENT,
    "measures": [str],
    "mean_examples": float,
    "shows": bool,
    "attackers": {"*": str},
}


def spec_of_job(job: ClientJob) -> JobSpec:
    """The job in texts; refused if they would not make it again."""
    untold = [name for name in ("on", "model", "loss") if job.experiment.get(name) is None]
    if untold:
        raise SettingError(
            f"the run cannot be told to clients elsewhere: its {' and its '.join(untold)} can only be said in Python. "
            "Name them in text, or make the visits here (executor='in-process')."
        )
    own = from_json(dict(job.experiment)).pieces()
    measures = job.pieces[len(own) :]
    if job.pieces[: len(own)] != own or any(_measure(repr(piece)) != piece for piece in measures):
        raise SettingError(
            f"the run cannot be told to clients elsewhere: {job.experiment['method']!r} and what is measured do not "
            "make its pieces again. Register the method and what it measures, or make the visits here "
            "(executor='in-process')."
        )
    texts = {
        "experiment": dict(job.experiment),
        "measures": [repr(piece) for piece in measures],
        "mean_examples": job.mean_examples,
        "shows": job.returns_models,
        "attackers": {str(client): repr(attacker) for client, attacker in job.attackers.items()},
    }
    return JobSpec(texts, job.shared)


def job_of_spec(
    order: JobSpec, *, on: DataSpec | None = None, device: str = "cpu"
) -> tuple[ClientJob, Federation]:
    """The job that an order says, and the data: those it names, or the client's own, ``on``."""
    texts: Mapping[str, Any] = order.settings
    try:
        check(texts, ORDER)
    except Damaged as error:
        raise _unfollowed(error) from None
    exp = from_json(texts["experiment"], on=on)
    measures = [_measure(text) for text in texts["measures"]]
    if not all(isinstance(piece, Piece) for piece in measures):
        raise _unfollowed(f"of {texts['measures']} not all can be measured here")
    fed = exp.source(device)()
    job = ClientJob(
        exp.open_learner(fed, device),
        (*exp.pieces(), *measures),
        exp.local,
        exp.seed,
        texts["mean_examples"],
        texts["shows"],
        texts["experiment"],
        {int(client): parse(text, "attacker") for client, text in texts["attackers"].items()},
        order.shared,
    )
    return job, fed


def _unfollowed(why: object) -> SettingError:
    return SettingError(
        f"the order of a run cannot be followed: {why}. Use the same version of fedflat on both sides."
    )


def _measure(text: str) -> Any:
    try:
        return parse(text, "measure")
    except FedflatError:
        return None
