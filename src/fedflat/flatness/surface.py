"""The loss around one model, along two random directions of the model's own scale.

Li et al., Visualizing the Loss Landscape of Neural Nets, NeurIPS 2018, arXiv:1712.09913.

    d <- d / ||d|| * ||w||   for each filter of a convolution and each row of a linear weight;
    d <- 0                   for biases and normalisation layers;
    the point (x, y) is  w + x d_1 + y d_2

Without that scaling, pictures of two models cannot be compared: if a layer is multiplied by 10 and
the next one divided by 10, nothing changes but the picture. The directions depend on the seed only
and are scaled afterwards. So models of one architecture with one seed share their directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from fedflat.core.flat import Layout, unit
from fedflat.core.seeds import torch_generator
from fedflat.errors import MOST_POINTS, SettingError, number
from fedflat.flatness.points import by_name, refuse_incomparable, refuse_other_layout, rows


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
