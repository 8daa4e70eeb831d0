"""The loss on the straight line through two models, and the barrier between them.

The point ``gamma`` is ``gamma a + (1 - gamma) b``: ``b`` at 0, ``a`` at 1, and as far again on both
sides. The barrier is how far the loss between them rises above the chord,

    max over gamma in [0, 1] of   L(gamma) - (gamma L(1) + (1 - gamma) L(0)),

and 0 if it never does. Models of batch normalisation: see `fedflat.flatness.points` for their
statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fedflat.errors import MOST_AT_ONCE, SettingError, number
from fedflat.flatness.points import Value, comparable, listed, named


class Line:
    """Points from ``gamma = -1`` to 2, ``steps`` of them between one model and the other."""

    def __init__(self, a: Tensor, b: Tensor, *, steps: int = 20) -> None:
        number("interpolate", "steps", steps, low=1, high=MOST_AT_ONCE, whole=True)
        comparable("interpolate", {"the first model": a, "the second model": b})
        if torch.equal(a, b):
            raise SettingError(
                "interpolate: both models are the same, so no line goes through them. Choose two."
            )
        self.a, self.b, self.steps = a, b, steps
        self.gamma = [place / steps for place in range(-steps, 2 * steps + 1)]

    def __len__(self) -> int:
        return len(self.gamma)

    def __getitem__(self, place: int, /) -> Tensor:
        return self.gamma[place] * self.a + (1 - self.gamma[place]) * self.b

    def result(self, values: Sequence[Sequence[float | None]]) -> dict[str, Any]:
        """Losses, errors, the barrier of the loss (None if a loss is not finite), and both models'
        own values."""
        zero, one = self.steps, 2 * self.steps
        between = [Value(*value).loss for value in values[zero : one + 1]]
        return {
            "gamma": self.gamma,
            **listed(values),
            "barrier": barrier(between),
            "a": named(values[one]),
            "b": named(values[zero]),
        }


def barrier(between: Sequence[float | None]) -> float | None:
    """How far losses at equal distances rise above the chord from the first to the last.

    >>> barrier([1.0, 2.0, 2.0]), barrier([1.0, 0.0, 2.0]), barrier([1.0, None, 2.0])
    (0.5, 0.0, None)
    """
    found = [loss for loss in between if loss is not None]
    if len(found) < len(between):
        return None
    last = len(found) - 1
    chord = [found[0] + (found[-1] - found[0]) * place / last for place in range(last + 1)]
    return max([0.0, *(loss - level for loss, level in zip(found[1:-1], chord[1:-1], strict=True))])
