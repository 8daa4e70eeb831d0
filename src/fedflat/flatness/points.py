"""The loss at many points of parameter space, on one set of examples.

The examples are split into batches and normalised once. Then every point costs one forward pass
over them, in evaluation mode, without weight decay or augmentation. Images use the channels-last
format in batches of 128, which is fastest for the papers' CNN on a CPU. The normalised set is kept
in memory: 12 kB per image of CIFAR in float32.

A landscape (`Line`, `Plane`, `Surface`) is a lazy sequence of points, and makes a result from their
values:

    values = []                                      # or those found before an interruption
    for value in losses(learner, model.buffers, landscape, data, start=len(values)):
        values.append(value)                         # and perhaps save them
    landscape.result(values)

Running statistics of batch normalisation stay as given. That is right near the model they belong
to. Far from it, pass some examples as `statistics` to estimate them at each point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fedflat.client.learner import Learner
from fedflat.core.flat import Layout
from fedflat.data.examples import Batch, ClientData, arguments
from fedflat.errors import SettingError

BATCH = 128

OnProgress = Callable[[int, int, str], None]
"""``on_progress(done, total, what)``, called after each step of a long computation."""


class Value(NamedTuple):
    """Loss and error at a point. As JSON it is ``[loss, error]``."""

    loss: float | None
    """Mean loss, or None if it is not finite."""
    error: float | None = None
    """1 - headline, or None if the headline is not a share."""


class Points(Protocol):
    """Parameter vectors by index. They may be computed on access."""

    def __len__(self) -> int:
        """Number of points."""
        ...

    def __getitem__(self, place: int, /) -> Tensor:
        """Return the parameters of one point."""
        ...


class Landscape(Points, Protocol):
    """Points with a result: a line, a plane or a surface."""

    def result(self, values: Sequence[Sequence[float | None]]) -> dict[str, Any]:
        """Return the result as JSON values, from the value of each point."""
        ...


def no_progress(done: int, total: int, what: str) -> None:
    """Ignore progress."""


def losses(
    learner: Learner,
    buffers: Tensor,
    points: Points,
    data: ClientData,
    *,
    start: int = 0,
    statistics: ClientData | None = None,
    on_progress: OnProgress = no_progress,
) -> Iterator[Value]:
    """Iterate over the values of the points, from index `start` on.

    buffers
        Running statistics of the model, the same at all points.
    statistics
        Examples on which batch normalisations estimate their statistics at each point, in place of
        `buffers`: the mean over batches of the batches' statistics.
    on_progress
        Called after each point.

    learner
        Module, loss and headline score.
    data
        The examples.
    """
    batches = split_batches(learner, data)
    refresh = None if statistics is None else split_batches(learner, statistics)
    for place in range(start, len(points)):
        load_point(learner, points[place], buffers)
        if refresh is not None:
            _estimate_statistics(learner.flat.module, refresh)
        loss, share = score(learner, batches)
        on_progress(place + 1, len(points), "points")
        yield Value(loss if isfinite(loss) else None, None if share is None else 1 - share)


def measure(
    learner: Learner, buffers: Tensor, landscape: Landscape, data: ClientData, **options: Any
) -> dict[str, Any]:
    """Evaluate all points of a landscape and return its result. `options` are those of `losses`."""
    return landscape.result(list(losses(learner, buffers, landscape, data, **options)))


def split_batches(learner: Learner, data: ClientData) -> list[Batch]:
    """Return all examples as batches for the model, of about equal size."""
    if not len(data):
        raise SettingError(
            "the set has no examples, so it has no loss. Choose a set that is not empty."
        )
    places = torch.arange(len(data)).tensor_split(-(-len(data) // BATCH))
    batches = (data.batch(part, learner.dtype) for part in places)
    return [Batch(learner.in_memory_format(batch.inputs), batch.targets) for batch in batches]


def load_point(learner: Learner, params: Tensor, buffers: Tensor) -> None:
    """Load a point into the learner's module."""
    refuse_other_layout(learner.flat.layout, params)
    learner.flat.load(params)
    learner.flat.buffers = buffers


def refuse_other_layout(layout: Layout, params: Tensor) -> None:
    """Raise `SettingError` if the parameters belong to another model."""
    if len(params) != layout.dim:
        raise SettingError(
            f"the point has {len(params):,} parameters, but the model has {layout.dim:,}. "
            "Use points of the same model."
        )


def score(learner: Learner, batches: list[Batch]) -> tuple[float, float | None]:
    """Return the mean loss of the learner's module, and the headline.

    The headline is None unless it is a share that should be high.
    """
    loss, total, meter = 0.0, 0.0, learner.task.meter(learner.outputs)
    for batch in batches:
        output = learner.flat.forward(*arguments(batch.inputs))
        mean, count = learner.mean(output, batch)
        loss += float(mean) * float(count)
        total += float(count)
        meter.add(output, batch)
    headline = learner.task.headline
    headline_score = (
        meter.scores().get(headline.name) if headline.share and headline.higher_is_better else None
    )
    return loss / (total or 1.0), headline_score


@torch.no_grad()
def _estimate_statistics(module: nn.Module, batches: list[Batch]) -> None:
    """Set the statistics of batch normalisations to those of these batches."""
    norms = [
        part
        for part in module.modules()
        if isinstance(part, _BatchNorm) and part.track_running_stats
    ]
    momenta = [norm.momentum for norm in norms]
    module.eval()
    examples = 0
    try:
        for batch in batches:
            examples += len(batch)
            for norm in norms:
                norm.train()
                norm.momentum = len(batch) / examples
            module(*arguments(batch.inputs))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum


def refuse_incomparable(owner: str, models: Mapping[str, Tensor]) -> None:
    """Raise `SettingError` for parameter vectors that are not finite or of different models."""
    (first, base), *others = models.items()
    for name, params in models.items():
        if not bool(params.isfinite().all()):
            raise SettingError(
                f"{owner}: {name} has parameters that are NaN or infinite. "
                "Choose a model that has not diverged."
            )
    for name, params in others:
        if params.shape != base.shape:
            raise SettingError(
                f"{owner}: {first} has {base.numel():,} parameters and {name} has "
                f"{params.numel():,}. Choose models of one architecture."
            )


def as_columns(values: Sequence[Sequence[float | None]]) -> dict[str, list[float | None]]:
    """Return the losses, and the errors if there are any, as lists."""
    points = [Value(*value) for value in values]
    lists: dict[str, list[float | None]] = {"loss": [value.loss for value in points]}
    if any(value.error is not None for value in points):
        lists["error"] = [value.error for value in points]
    return lists


def by_name(value: Sequence[float | None]) -> dict[str, float | None]:
    """Return loss and error of one point by name."""
    return {name: column[0] for name, column in as_columns([value]).items()}


def rows(
    values: Sequence[Sequence[float | None]], width: int
) -> dict[str, list[list[float | None]]]:
    """Return the losses and errors of a grid as rows of `width` points."""
    flat = as_columns(values)
    return {
        name: [column[i : i + width] for i in range(0, len(column), width)]
        for name, column in flat.items()
    }
