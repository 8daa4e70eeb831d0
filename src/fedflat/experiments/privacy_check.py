"""Refuse runs in which something would leave a client beside its clipped and noised update."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fedflat.core.stage import Stage
from fedflat.errors import SettingError
from fedflat.server.privacy_accountant import SAMPLERS
from fedflat.topologies.topology import Star

if TYPE_CHECKING:
    from fedflat.experiments.experiment import Experiment


def check_privacy(exp: Experiment) -> None:
    """Raise `SettingError` if the method has `dp` and its budget would not cover the run.

    Batch normalisation is refused when the model is known (`ClippedNoise.check`).
    """
    if not any(piece.stage is Stage.PRIVACY for piece in exp.method.client):
        return
    for problem in _problems(exp):
        raise SettingError(f"dp: {problem}")


def _problems(exp: Experiment) -> Iterator[str]:
    method = exp.method
    leave_out = "Leave it out, or leave dp() out."
    for piece in method.client:
        if piece.upload_vectors or piece.uploads_statistics:
            yield f"{piece} sends more than the update, without a clip and noise. {leave_out}"
    if method.cost.up != 1:
        yield (
            f"{method} sends {method.cost.up} vectors from each client per round, and the budget "
            "counts one. Use a method that sends one."
        )
    if method.aggregator is not None:
        yield f"{method.aggregator} replaces the mean, whose noise the budget counts. {leave_out}"
    for evaluation in method.evaluations:
        yield f"{evaluation} sends results of each client's own model. {leave_out}"
    for average in method.averages:
        if average.needs_replies:
            yield f"{average} uses the models of single clients. {leave_out}"
    described = [
        *exp.topology.describers,
        *exp.init.describers,
        *(one for piece in exp.pieces() for one in piece.describers),
        *(one for piece in method.server for one in piece.describers),
    ]
    for describer in described:
        yield (
            f"{describer} describes every client before the first round, without noise. {leave_out}"
        )
    if not isinstance(exp.topology, Star):
        yield f"the budget holds for a star only, found {exp.topology}. Remove the topology."
    sized = [str(piece) for piece in method.server if piece.averages == "sized"]
    if exp.weighting == "sized" or sized:
        yield (
            f"{sized[0] if sized else 'weighting=sized'} weights clients by their examples, so one "
            "client could move the mean by more than the clip. Use uniform weights."
        )
    if (exp.sampler.kind or "uniform") not in SAMPLERS and exp.sampler.cohorts is None:
        yield (
            f"the sampler {exp.sampler.kind!r} selects some clients more often than others, which "
            "the budget does not count. Use bernoulli or uniform."
        )
