"""The loss at many points of parameter space, on one set of examples.

The examples are cut into batches and normalised once, then every point costs one forward pass over
them, in evaluation mode, without weight decay or augmentation. Images lie channels last, in batches
of 128: on a CPU that is the fastest for the papers' CNN. The normalised set is held in memory: 12
kB an image of CIFAR in float32.

A landscape (`Line`, `Plane`, `Surface`) is a lazy sequence of points that knows what its values
mean:

    values = []                                      # or those found before an interruption
    for value in losses(learner, model.buffers, landscape, data, start=len(values)):
        values.append(value)                         # and perhaps write them down
    landscape.result(values)

Running statistics of batch normalisation stay as given. That is right near the model they belong
to; far from it, say ``statistics=`` with some examples to estimate them anew at each point.
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
from fedflat.data.batch import Batch, arguments
from fedflat.data.examples import ClientData
from fedflat.errors import SettingError

BATCH = 128

Tell = Callable[[int, int, str], None]
"""``tell(done, total, what)``, called after each step of a long computation."""


class Value(NamedTuple):
    """What was found at a point. As JSON it is ``[loss, error]``."""

    loss: float | None
    """The mean loss, or None if it is not finite."""
    error: float | None = None
    """1 - the headline, or None if that is no share of one."""


class Points(Protocol):
    """Parameter vectors by place; they may be made when they are asked for."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def __getitem__(self, place: int, /) -> Tensor:
        """The parameters of one point."""
        ...


class Landscape(Points, Protocol):
    """Points that make a picture."""

    def result(self, values: Sequence[Sequence[float | None]]) -> dict[str, Any]:
        """The picture, ready for JSON, from the value of each point."""
        ...


def quiet(done: int, total: int, what: str) -> None:
    """Tell nobody."""


def losses(
    learner: Learner,
    buffers: Tensor,
    points: Points,
    data: ClientData,
    *,
    start: int = 0,
    statistics: ClientData | None = None,
    on_progress: Tell = quiet,
) -> Iterator[Value]:
    """The value of each point, one at a time, from the ``start``-th on.

    buffers
        The model's running statistics, the same at all points.
    statistics
        Examples on which batch normalisations estimate their statistics anew at each point, in place of
        ``buffers``: the mean over batches of the batches' statistics.
    """
    batches = cut(learner, data)
    refresh = None if statistics is None else cut(learner, statistics)
    for place in range(start, len(points)):
        move(learner, points[place], buffers)
        if refresh is not None:
            _estimate(learner.flat.module, refresh)
        loss, share = score(learner, batches)
        on_progress(place + 1, len(points), "points")
        yield Value(loss if isfinite(loss) else None, None if share is None else 1 - share)


def measure(
    learner: Learner, buffers: Tensor, landscape: Landscape, data: ClientData, **how: Any
) -> dict[str, Any]:
    """The whole picture at once; ``how`` as for `losses`."""
    return landscape.result(list(losses(learner, buffers, landscape, data, **how)))


def cut(learner: Learner, data: ClientData) -> list[Batch]:
    """All examples as batches ready for the model, none much smaller than the others."""
    if not len(data):
        raise SettingError(
            "there is no example to take the loss of. Choose a set that is not empty."
        )
    places = torch.arange(len(data)).tensor_split(-(-len(data) // BATCH))
    batches = (data.batch(part, learner.dtype) for part in places)
    return [Batch(learner.in_memory_format(batch.inputs), batch.targets) for batch in batches]


def move(learner: Learner, params: Tensor, buffers: Tensor) -> None:
    """Put the learner's module at a point."""
    fits(learner.flat.layout, params)
    learner.flat.load(params)
    learner.flat.buffers = buffers


def fits(layout: Layout, params: Tensor) -> None:
    """Refuse parameters of another model."""
    if len(params) != layout.dim:
        raise SettingError(
            f"the point has {len(params):,} parameters, but the model has {layout.dim:,}. Take points of one model."
        )


def score(learner: Learner, batches: list[Batch]) -> tuple[float, float | None]:
    """The mean loss where the module stands, and the headline if it is a share of one, the more the
    better."""
    loss, counted, meter = 0.0, 0.0, learner.task.meter(learner.outputs)
    for batch in batches:
        output = learner.flat.forward(*arguments(batch.inputs))
        mean, count = learner.mean(output, batch)
        loss += float(mean) * float(count)
        counted += float(count)
        meter.add(output, batch)
    headline = learner.task.headline
    found = (
        meter.scores().get(headline.name) if headline.share and headline.higher_is_better else None
    )
    return loss / (counted or 1.0), found


@torch.no_grad()
def _estimate(module: nn.Module, batches: list[Batch]) -> None:
    """Give batch normalisations the statistics of these batches, each counted by its size."""
    norms = [
        part
        for part in module.modules()
        if isinstance(part, _BatchNorm) and part.track_running_stats
    ]
    momenta = [norm.momentum for norm in norms]
    module.eval()
    seen = 0
    try:
        for batch in batches:
            seen += len(batch)
            for norm in norms:
                norm.train()
                norm.momentum = len(batch) / seen
            module(*arguments(batch.inputs))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum


def comparable(owner: str, models: Mapping[str, Tensor]) -> None:
    """Refuse parameter vectors that are not finite, or of different models."""
    (first, base), *others = models.items()
    for name, params in models.items():
        if not bool(params.isfinite().all()):
            raise SettingError(
                f"{owner}: {name} holds NaN or infinity. Choose a model that has not diverged."
            )
    for name, params in others:
        if params.shape != base.shape:
            raise SettingError(
                f"{owner}: {first} has {base.numel():,} parameters and {name} has {params.numel():,}. Choose models of "
                "one architecture."
            )


def listed(values: Sequence[Sequence[float | None]]) -> dict[str, list[float | None]]:
    """The losses, and the errors if there are any, as two lists."""
    found = [Value(*value) for value in values]
    lists: dict[str, list[float | None]] = {"loss": [value.loss for value in found]}
    if any(value.error is not None for value in found):
        lists["error"] = [value.error for value in found]
    return lists


def named(value: Sequence[float | None]) -> dict[str, float | None]:
    """The value of one point by name."""
    return {name: column[0] for name, column in listed([value]).items()}


def rows(
    values: Sequence[Sequence[float | None]], width: int
) -> dict[str, list[list[float | None]]]:
    """The losses and errors of a grid as rows of ``width`` points."""
    flat = listed(values)
    return {
        name: [column[i : i + width] for i in range(0, len(column), width)]
        for name, column in flat.items()
    }
