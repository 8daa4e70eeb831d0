"""Order of pieces within a method. ``+`` sorts pieces by stage, from the data to the step.

client   batch -> TERM -> PROBE ->          CORRECT -> LIMIT -> DECAY -> OPTIMIZER -> w <- w - lr g
         update -> PRIVACY -> COMPRESS -> reply
server   cohort        -> PROBE -> SCALE -> CORRECT ->                   OPTIMIZER -> w <- w - delta
"""

from __future__ import annotations

from enum import IntEnum


class Stage(IntEnum):
    """Stages of a client's or a server's step, from the data to the step."""

    BATCH = 0
    """Changes the examples: mixup, cutout."""
    TERM = 1
    """Adds a term to the loss."""
    PROBE = 2
    """Chooses the point of the gradient: SAM and its variants."""
    SCALE = 3
    """Scales the aggregated delta: the server's learning rate."""
    CORRECT = 4
    """Adds a vector to the gradient: prox terms, duals, control variates, such as ``g + c - c_k``."""
    LIMIT = 5
    """Bounds the gradient: clipping."""
    DECAY = 6
    """Weight decay: never clipped, never in an ascent step."""
    OPTIMIZER = 7
    """Turns the gradient into a step: momentum, Adam."""
    AFTER = 8
    """Follows the server's step: computes what depends on the new model."""
    PRIVACY = 9
    """Bounds and noises a client's update before it is sent."""
    COMPRESS = 10
    """Compresses a client's update before it is sent."""
