"""The loss on the plane through three models: of three rounds, three methods or three clients.

    u = w_2 - w_1,   v = (w_3 - w_1) - <w_3 - w_1, u> / ||u||^2 u,   both then of length 1;
    the point (x, y) is  w_1 + x u + y v

so that distances in the picture are distances between parameters. The grid extends 20 % beyond the
three models. The models themselves are evaluated too, not interpolated from the grid. Such planes
are drawn by Garipov et al., Loss Surfaces, Mode Connectivity, and Fast Ensembling of DNNs,
NeurIPS 2018.

See `fedflat.flatness.points` for the statistics of batch normalisation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fedflat.errors import MOST_POINTS, SettingError, number
from fedflat.flatness.points import by_name, refuse_incomparable, rows

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
