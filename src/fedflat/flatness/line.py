"""The loss on the straight line through two models, and the barrier between them.

The point ``gamma`` is ``gamma a + (1 - gamma) b``: ``b`` at 0 and ``a`` at 1. The line goes from -1
to 2. The barrier is how far the loss between the models rises above the chord,

    max over gamma in [0, 1] of   L(gamma) - (gamma L(1) + (1 - gamma) L(0)),

and 0 if it never does. See `fedflat.flatness.points` for the statistics of batch normalisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fedflat.errors import MOST_AT_ONCE, SettingError, number
from fedflat.flatness.points import Value, as_columns, by_name, refuse_incomparable


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
