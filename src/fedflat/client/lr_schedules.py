"""A learning rate that decreases within local training."""

from __future__ import annotations

from dataclasses import dataclass

from fedflat.client.piece import ClientContext, Piece
from fedflat.core.stage import Stage
from fedflat.errors import number


@dataclass(frozen=True, repr=False)
class PolyRate(Piece):
    """Step i of tau uses ``(1 - i / (factor tau))^power`` of the round's learning rate."""

    power: float = 0.9
    factor: float = 1.0

    stage, key = Stage.OPTIMIZER, "poly_rate"
    stackable = True

    def __post_init__(self) -> None:
        number("poly_rate", "power", self.power, low=0)
        number("poly_rate", "factor", self.factor, low=1)

    def lr_factor(self, v: ClientContext) -> float:
        """Return the factor of this step."""
        return float((1 - v.steps / (self.factor * v.planned_steps)) ** self.power)
