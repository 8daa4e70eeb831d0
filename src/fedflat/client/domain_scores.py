"""How good a model is on a test set, in all and in each of its domains.

Parts of a test set may be tested with forms of their own of the model: where clients keep their
batch normalisation, a domain is tested with what its clients keep (`Piece.eval_model`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import pstdev
from typing import Any

import torch
from torch import Tensor

from fedflat.client.evaluate import Scorer, eval_batch_size, outputs
from fedflat.client.learner import Learner
from fedflat.client.piece import ClientState, EvalModel, Piece, eval_model_piece
from fedflat.core.flat import Model
from fedflat.data.batch import Batch, arguments, each
from fedflat.data.examples import ClientData

Scores = dict[str, float]
"""By name."""
EIGHT = 8
"""Examples that are normalised together where the statistics are those of the test batch."""
SPREAD = "_std"
"""After the name of the headline: its standard deviation over the domains."""


@dataclass(frozen=True)
class TestPart:
    """Some examples of a test set, by their places, and the form of the model they are tested
    with."""

    indices: Tensor
    eval_model: EvalModel


def own_scores(
    learner: Learner, pieces: Sequence[Piece], model: Model, state: ClientState, data: ClientData
) -> Scores:
    """The mean loss and the task's scores of a model at a client with this ``memory``, and with
    what it keeps of it."""
    piece = eval_model_piece(pieces)
    kept = state.get(piece.key) if piece else None
    fit = (
        piece.eval_model(learner.flat.layout, model, [kept] if kept else [])
        if piece
        else EvalModel(model)
    )
    tally = Scorer(learner)
    for _, batch, output in part_outputs(learner, data, TestPart(torch.arange(len(data)), fit)):
        tally.add(batch, output)
    return tally.scores()


def evaluate_parts(
    learner: Learner,
    data: ClientData,
    parts: Sequence[TestPart],
    reference: ClientData | None = None,
) -> dict[str, Scores]:
    """The scores on all parts together under "", then on the examples of every value of a facet by
    its name.

    The whole also has the spread of the headline over its domains, if it has several.
    """
    whole = Scorer(learner)
    for batch, output in outputs(learner, reference) if reference is not None else ():
        whole.meter.refer(output, batch)  # type: ignore[attr-defined]
    domains = data.domains if reference is None else None
    finest, groups = (domains.finest(), domains.groups()) if domains else ({}, {})
    named: dict[Any, Scorer] = {name: Scorer(learner) for name in groups}
    several = finest if len(finest) > 1 else {}
    same = {
        domain: name
        for domain, places in several.items()
        for name in groups
        if groups[name] == places
    }
    named |= {domain: Scorer(learner) for domain in several if domain not in same}
    members = {
        name: torch.tensor(groups[name] if name in groups else finest[name]) for name in named
    }
    for part in parts:
        for places, batch, output in part_outputs(learner, data, part):
            whole.add(batch, output)
            for name, tally in named.items():
                rows = torch.isin(places, members[name])
                if rows.any():
                    tally.add(each(lambda t: t[rows], batch), each(lambda t: t[rows], output))  # noqa: B023
    scores = {name: tally.scores() for name, tally in named.items() if tally.losses}
    found = {"": whole.scores(), **{name: scores[name] for name in groups if name in scores}}
    headline = learner.task.headline.name
    values = [
        scores[name][headline]
        for name in (same.get(d, d) for d in several)
        if headline in scores.get(name, ())
    ]
    values = [value for value in values if isfinite(value)]
    return found | (
        {"": found[""] | {headline + SPREAD: pstdev(values)}} if len(values) > 1 else {}
    )


def part_outputs(
    learner: Learner, data: ClientData, part: TestPart
) -> Iterator[tuple[Tensor, Batch, Any]]:
    """Batch by batch: the places of its examples, the batch, and what the module makes of it."""
    learner.flat.load(part.eval_model.model.params)
    learner.flat.buffers = part.eval_model.model.buffers
    norms = part.eval_model.batch_statistics
    cuts = (
        _eights(part.indices)
        if norms
        else list(part.indices.split(eval_batch_size(data.examples.shape)))
    )
    for places, batch in zip(cuts, data.batches(cuts, learner.dtype), strict=True):
        output = learner.flat.forward(
            *arguments(learner.in_memory_format(batch.inputs)), norms=norms
        )
        if len(set(places.tolist())) < len(places):  # one example alone was taken twice
            places, batch, output = (
                places[:1],
                each(lambda t: t[:1], batch),
                each(lambda t: t[:1], output),
            )
        yield places, batch, output


def _eights(places: Tensor) -> list[Tensor]:
    """Places in eights, none of them alone: the last one joins those before it, or stands twice."""
    cuts = list(places.split(EIGHT))
    if len(cuts[-1]) > 1:
        return cuts
    return [*cuts[:-2], torch.cat(cuts[-2:])] if len(cuts) > 1 else [places.repeat(2)]
