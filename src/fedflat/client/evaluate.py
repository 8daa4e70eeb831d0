"""Evaluation of a model on some examples: on all of them, and on each of their domains.

`part_outputs` is the only loop over test batches. The outputs of the module are computed by a
`Forward`: one batch after the other in this process, or several at once in worker processes, in the
same order. Parts of a test set may need their own version of
the model. Where clients keep their own batch normalisation, a domain is evaluated with that of its
clients (`Piece.eval_model`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite, prod
from statistics import pstdev
from typing import Any, Protocol

import torch
from torch import Tensor

from fedflat.client.learner import Learner
from fedflat.client.piece import ClientState, EvalModel, Piece, eval_model_piece
from fedflat.core.flat import Model
from fedflat.data.domains import Domain, Domains
from fedflat.data.examples import Batch, ClientData, Tensors, arguments, each

Scores = dict[str, float]
"""Scores by name."""
BATCH = 256
"""Largest number of examples in a batch."""
NUMBERS = 1 << 23
"""Largest number of input numbers in a batch."""
EIGHT = 8
"""Number of examples normalised together if the statistics are those of the test batch."""
SPREAD = "_std"
"""Suffix of the headline's standard deviation over the domains."""


class Forward(Protocol):
    """Computes the outputs of the model that a learner has loaded."""

    def __call__(
        self, learner: Learner, batches: Iterable[Batch], norms: Sequence[str] = ()
    ) -> Iterator[tuple[Batch, Any]]:
        """Yield each batch with the module's output in evaluation mode, in the order of the batches.

        The batch normalizations named in ``norms`` use the statistics of the batch.
        """
        ...


def forward_here(
    learner: Learner, batches: Iterable[Batch], norms: Sequence[str] = ()
) -> Iterator[tuple[Batch, Any]]:
    """Compute the outputs in this process; see `Forward`."""
    for batch in batches:
        yield batch, forward_one(learner, batch.inputs, norms)


def forward_one(learner: Learner, inputs: Tensors, norms: Sequence[str] = ()) -> Any:
    """Return the output of the learner's module for one batch of inputs."""
    return learner.flat.forward(*arguments(learner.in_memory_format(inputs)), norms=norms)


def scores(
    learner: Learner, data: ClientData, reference: ClientData | None = None
) -> dict[str, float]:
    """Return the mean loss and the task's scores.

    Retrieval tasks look the examples up in ``reference``.
    """
    scorer = Scorer(learner)
    if reference is not None:
        for batch, output in outputs(learner, reference):
            scorer.meter.refer(output, batch)  # type: ignore[attr-defined]
    for batch, output in outputs(learner, data):
        scorer.add(batch, output)
    return scorer.scores()


class Scorer:
    """Accumulates the loss and the task's scores over batches."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.meter = learner, learner.task.meter(learner.outputs)
        self.losses: list[Tensor] = []
        self.counted = 0.0

    def add(self, batch: Batch, output: Any) -> None:
        """Add a batch and the module's output on it."""
        mean, count = self.learner.mean(output, batch)
        self.counted += float(count)
        self.losses.append((mean.double() * (float(count) / len(batch))).expand(len(batch)))
        self.meter.add(output, batch)

    def scores(self) -> dict[str, float]:
        """Return the mean loss and the task's scores."""
        return {
            "loss": float(torch.cat(self.losses).sum() / (self.counted or 1.0)),
            **self.meter.scores(),
        }


def outputs(
    learner: Learner, data: ClientData, forward: Forward = forward_here
) -> Iterator[tuple[Batch, Any]]:
    """Yield each batch with the output of the learner's module as it is."""
    for _, batch, output in _outputs(learner, data, torch.arange(len(data)), (), forward):
        yield batch, output


def eval_batch_size(shape: tuple[int, ...]) -> int:
    """Return the batch size for examples of this shape: smaller for large images.

    >>> eval_batch_size((3, 32, 32)), eval_batch_size((3, 180, 240))
    (256, 64)
    >>> eval_batch_size((3, 1024, 2048))
    1
    """
    return min(BATCH, max(1, NUMBERS // max(prod(shape), 1)))


def headline(learner: Learner, data: ClientData) -> float:
    """Return the task's headline score; NaN if a custom loss leaves none."""
    return scores(learner, data).get(learner.task.headline.name, math.nan)


@dataclass(frozen=True)
class TestPart:
    """Some examples of a test set, by their indices, and the model to evaluate on them."""

    indices: Tensor
    eval_model: EvalModel


def whole(data: ClientData, model: Model) -> list[TestPart]:
    """The whole test set as one part."""
    return [TestPart(torch.arange(len(data)), EvalModel(model))]


def own_scores(
    learner: Learner, pieces: Sequence[Piece], model: Model, state: ClientState, data: ClientData
) -> Scores:
    """Return the mean loss and the scores of a model at a client.

    Its ``state`` has the private parameters.
    """
    piece = eval_model_piece(pieces)
    private = state.get(piece.key) if piece else None
    eval_model = (
        piece.eval_model(learner.flat.layout, model, [private] if private else [])
        if piece
        else EvalModel(model)
    )
    scorer = Scorer(learner)
    for _, batch, output in part_outputs(
        learner, data, TestPart(torch.arange(len(data)), eval_model)
    ):
        scorer.add(batch, output)
    return scorer.scores()


def evaluate_parts(
    learner: Learner,
    data: ClientData,
    parts: Sequence[TestPart],
    reference: ClientData | None = None,
    forward: Forward = forward_here,
) -> dict[str, Scores]:
    """Return the scores on all parts together, under "", and on each value of a facet, by its name.

    The first also has the standard deviation of the headline over the domains, if there are
    several.
    """
    whole = Scorer(learner)
    for batch, output in outputs(learner, reference, forward) if reference is not None else ():
        whole.meter.refer(output, batch)  # type: ignore[attr-defined]
    domains = data.domains if reference is None else None
    finest, groups = _scored_domains(learner, data, domains) if domains else ({}, {})
    named: dict[Any, Scorer] = {name: Scorer(learner) for name in groups}
    several = finest if len(finest) > 1 else {}
    same = {
        domain: name
        for domain, indices in several.items()
        for name in groups
        if groups[name] == indices
    }
    named |= {domain: Scorer(learner) for domain in several if domain not in same}
    members = {
        name: torch.tensor(groups[name] if name in groups else finest[name]) for name in named
    }
    for part in parts:
        for indices, batch, output in part_outputs(learner, data, part, forward):
            whole.add(batch, output)
            compared = learner.task.reference_rows(batch.targets) if named else None
            for name, scorer in named.items():
                rows = torch.isin(indices, members[name])
                rows = rows if compared is None else rows | compared.to(rows.device)
                if rows.any():
                    select = partial(_rows, rows)
                    scorer.add(each(select, batch), each(select, output))
    scores = {name: scorer.scores() for name, scorer in named.items() if scorer.losses}
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


def _scored_domains(
    learner: Learner, data: ClientData, domains: Domains
) -> tuple[dict[Domain, list[int]], dict[str, list[int]]]:
    """Positions of each domain, and of each value of a facet, among examples that are scored."""
    compared = learner.task.reference_rows(data.targets)
    if compared is None:
        return domains.finest(), domains.groups()
    scored = (~compared).nonzero().squeeze(1).tolist()
    own = domains.of(scored)
    return (
        {domain: [scored[i] for i in places] for domain, places in own.finest().items()},
        {value: [scored[i] for i in places] for value, places in own.groups().items()},
    )


def part_outputs(
    learner: Learner, data: ClientData, part: TestPart, forward: Forward = forward_here
) -> Iterator[tuple[Tensor, Batch, Any]]:
    """Yield for each batch the indices of its examples, the batch, and the module's output."""
    learner.load(part.eval_model.model)
    yield from _outputs(learner, data, part.indices, part.eval_model.batch_statistics, forward)


def _outputs(
    learner: Learner, data: ClientData, indices: Tensor, norms: tuple[str, ...], forward: Forward
) -> Iterator[tuple[Tensor, Batch, Any]]:
    size = eval_batch_size(data.examples.shape)
    cuts = _eights(indices) if norms else list(indices.split(size))
    batches = data.batches(cuts, learner.dtype)
    for cut, (batch, output) in zip(cuts, forward(learner, batches, norms), strict=True):
        if norms and len(set(cut.tolist())) < len(cut):  # _eights repeated a single example
            first = partial(_rows, slice(1))
            yield cut[:1], each(first, batch), each(first, output)
        else:
            yield cut, batch, output


def _rows(rows: Tensor | slice, t: Tensor) -> Tensor:
    return t[rows]


def _eights(indices: Tensor) -> list[Tensor]:
    """Split indices into eights. A single last one joins those before it, or is repeated."""
    cuts = list(indices.split(EIGHT))
    if len(cuts[-1]) > 1:
        return cuts
    return [*cuts[:-2], torch.cat(cuts[-2:])] if len(cuts) > 1 else [indices.repeat(2)]
