"""The loss around one model, on the plane through three, and on the line through two.

See `fedflat.flatness.points` for the statistics of batch normalisation.

**Surface.** Two random directions of the model's own scale. Li et al., Visualizing the Loss
Landscape of Neural Nets, NeurIPS 2018, arXiv:1712.09913.

    d <- d / ||d|| * ||w||   for each filter of a convolution and each row of a linear weight;
    d <- 0                   for biases and normalisation layers;
    the point (x, y) is  w + x d_1 + y d_2

Without that scaling, pictures of two models cannot be compared: if a layer is multiplied by 10 and
the next one divided by 10, nothing changes but the picture. The directions depend on the seed only
and are scaled afterwards. So models of one architecture with one seed share their directions.

**Plane.** Three rounds, three methods or three clients, as in Garipov et al., Loss Surfaces, Mode
Connectivity, and Fast Ensembling of DNNs, NeurIPS 2018.

    u = w_2 - w_1,   v = (w_3 - w_1) - <w_3 - w_1, u> / ||u||^2 u,   both then of length 1;
    the point (x, y) is  w_1 + x u + y v

so that distances in the picture are distances between parameters. The grid extends 20 % beyond the
three models. The models themselves are evaluated too, not interpolated from the grid.

**Line.** The point ``gamma`` is ``gamma a + (1 - gamma) b``: ``b`` at 0 and ``a`` at 1. The line
goes from -1 to 2. The barrier is how far the loss between the models rises above the chord,

    max over gamma in [0, 1] of   L(gamma) - (gamma L(1) + (1 - gamma) L(0)),

and 0 if it never does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from fedflat.core.flat import Layout, unit
from fedflat.core.seeds import torch_generator
from fedflat.errors import MOST_AT_ONCE, MOST_POINTS, SettingError, number
from fedflat.flatness.points import (
    Value,
    as_columns,
    by_name,
    refuse_incomparable,
    refuse_other_layout,
    rows,
)


class Surface:
    """A grid around a model, from `-span` to `span` in both directions, row by row.

    It has `points` times `points` points. `points` must be odd. `span` is in units of the norm of
    the weights.

    params
        The parameters of the model, as a vector.
    layout
        Names and shapes of the parameters.
    seed
        Seed of the two directions, which are the same for models of one layout.
    """

    def __init__(
        self, params: Tensor, layout: Layout, *, points: int = 51, span: float = 1.0, seed: int = 0
    ) -> None:
        number("surface", "points", points, low=3, high=MOST_POINTS, whole=True)
        number("surface", "span", span, low=0, open_low=True)
        if points % 2 == 0:
            raise SettingError(
                f"surface: points must be odd, so that the model is in the middle, found {points}. "
                f"Use {points + 1}."
            )
        refuse_other_layout(layout, params)
        refuse_incomparable("surface", {"the model": params})
        self.params, self.points = params, points
        self.first, self.second = (direction(params, layout, seed, which) for which in range(2))
        self.axis = [span * (2 * place / (points - 1) - 1) for place in range(points)]

    def __len__(self) -> int:
        return self.points**2

    def __getitem__(self, place: int, /) -> Tensor:
        row, column = divmod(place, self.points)
        return self.params + self.axis[column] * self.first + self.axis[row] * self.second

    def result(self, values: Sequence[Sequence[float | None]]) -> dict[str, Any]:
        """Return losses and errors, one row per `y`, and those of the model.

        `length` is the norm of the directions: the parameter distance of 1 on an axis.
        """
        middle = by_name(values[len(values) // 2])
        length = float(self.first.norm())  # the second direction has the same norm
        return {
            "x": self.axis,
            "y": self.axis,
            **rows(values, self.points),
            "center": middle,
            "length": length,
        }


def direction(params: Tensor, layout: Layout, seed: int, which: int) -> Tensor:
    """Return a Gaussian direction with the filter norms of the model, and 0 for 1-D parameters."""
    rng = torch_generator(seed, "surface", which)
    gaussian = torch.randn(layout.dim, generator=rng, dtype=torch.float64).to(params)
    parts = zip(
        layout.shapes, gaussian.split(layout.sizes), params.split(layout.sizes), strict=True
    )
    return torch.cat([_scale_filters(d, w, shape) for shape, d, w in parts])


def _scale_filters(d: Tensor, w: Tensor, shape: tuple[int, ...]) -> Tensor:
    if len(shape) <= 1:
        return torch.zeros_like(d)
    filters = (shape[0], prod(shape[1:]))
    lengths: Tensor = torch.linalg.vector_norm(w.view(filters), dim=1, keepdim=True)
    return (unit(d.view(filters)) * lengths).view(-1)


MARGIN = 0.2


class Plane:
    """Three models, given by name, then a grid of `points` times `points`, row by row."""

    def __init__(self, models: Mapping[str, Tensor], *, points: int = 21) -> None:
        number("plane", "points", points, low=2, high=MOST_POINTS, whole=True)
        if len(models) != 3:
            raise SettingError(
                f"plane: three models are needed to define a plane, found {len(models)}. "
                "Give three."
            )
        refuse_incomparable("plane", models)
        self.models, self.points = dict(models), points
        self.origin, *others = (params.double() for params in models.values())
        self.u, across = self._unit(others[0] - self.origin)
        out = others[1] - self.origin
        along = float(out @ self.u)
        self.v, up = self._unit(out - along * self.u)
        self.corners = [(0.0, 0.0), (across, 0.0), (along, up)]
        self.x, self.y = (self._axis([corner[i] for corner in self.corners]) for i in range(2))

    def _unit(self, direction: Tensor) -> tuple[Tensor, float]:
        """Return the direction with norm 1, and its norm. Refuse rounding errors."""
        length = float(direction.norm())
        precision = max(
            8 * max(torch.finfo(params.dtype).eps for params in self.models.values()), 1e-10
        )
        if length <= precision * max(
            float(params.double().norm()) for params in self.models.values()
        ):
            raise SettingError(
                f"plane: {', '.join(self.models)} are equal or lie on one line, so they define no "
                "plane. Choose three that differ, or interpolate between two of them."
            )
        return direction / length, length

    def _axis(self, coordinates: list[float]) -> list[float]:
        low, high = min(coordinates), max(coordinates)
        start, length = low - MARGIN * (high - low), (1 + 2 * MARGIN) * (high - low)
        return [start + length * place / (self.points - 1) for place in range(self.points)]

    def at(self, x: float, y: float) -> Tensor:
        """Return the parameters at a point of the plane, in float64."""
        return self.origin + x * self.u + y * self.v

    def __len__(self) -> int:
        return len(self.corners) + self.points**2

    def __getitem__(self, place: int, /) -> Tensor:
        if place < len(self.corners):
            return list(self.models.values())[place]
        row, column = divmod(place - len(self.corners), self.points)
        return self.at(self.x[column], self.y[row])

    def result(self, values: Sequence[Sequence[float | None]]) -> dict[str, Any]:
        """Return losses and errors, one row per `y`, and the position and values of each model."""
        count = len(self.corners)
        models = [
            {"name": name, "x": x, "y": y, **by_name(value)}
            for name, (x, y), value in zip(self.models, self.corners, values[:count], strict=True)
        ]
        return {"x": self.x, "y": self.y, **rows(values[count:], self.points), "points": models}


class Line:
    """Points from ``gamma = -1`` to 2, with `steps` steps between the two models.

    a, b
        The parameters of the models at ``gamma = 1`` and ``gamma = 0``, as vectors.
    """

    def __init__(self, a: Tensor, b: Tensor, *, steps: int = 20) -> None:
        number("interpolate", "steps", steps, low=1, high=MOST_AT_ONCE, whole=True)
        refuse_incomparable("interpolate", {"the first model": a, "the second model": b})
        if torch.equal(a, b):
            raise SettingError(
                "interpolate: both models are the same, so they define no line. "
                "Choose two different ones."
            )
        self.a, self.b, self.steps = a, b, steps
        self.gamma = [place / steps for place in range(-steps, 2 * steps + 1)]

    def __len__(self) -> int:
        return len(self.gamma)

    def __getitem__(self, place: int, /) -> Tensor:
        return self.gamma[place] * self.a + (1 - self.gamma[place]) * self.b

    def result(self, values: Sequence[Sequence[float | None]]) -> dict[str, Any]:
        """Return losses, errors, the barrier, and the values of both models.

        The barrier is None if a loss is not finite.
        """
        zero, one = self.steps, 2 * self.steps
        between = [Value(*value).loss for value in values[zero : one + 1]]
        return {
            "gamma": self.gamma,
            **as_columns(values),
            "barrier": barrier(between),
            "a": by_name(values[one]),
            "b": by_name(values[zero]),
        }


def barrier(between: Sequence[float | None]) -> float | None:
    """Return how far equally spaced losses rise above the chord from the first to the last.

    >>> barrier([1.0, 2.0, 2.0]), barrier([1.0, 0.0, 2.0]), barrier([1.0, None, 2.0])
    (0.5, 0.0, None)
    """
    finite = [loss for loss in between if loss is not None]
    if len(finite) < len(between):
        return None
    last = len(finite) - 1
    chord = [finite[0] + (finite[-1] - finite[0]) * place / last for place in range(last + 1)]
    return max(
        [0.0, *(loss - level for loss, level in zip(finite[1:-1], chord[1:-1], strict=True))]
    )
