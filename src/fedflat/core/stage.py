"""Where in a stack a piece stands. ``+`` sorts by stage; left is near the data, right near the
step.

client   batch -> TERM -> PROBE ->          CORRECT -> LIMIT -> DECAY -> PACE -> w <- w - lr * g
server   cohort        -> PROBE -> SCALE -> CORRECT ->                   PACE -> w <- w - delta
"""

from __future__ import annotations

from enum import IntEnum


class Stage(IntEnum):
    """The places, from the data to the step."""

    BATCH = 0
    """Changes the examples: mixup, cutout."""
    TERM = 1
    """Adds to the loss."""
    PROBE = 2
    """Chooses where the gradient is taken: SAM and its kin."""
    SCALE = 3
    """Scales what the cohort returned: the server's learning rate."""
    CORRECT = 4
    """Adds a vector to the gradient: prox terms, duals, control variates."""
    LIMIT = 5
    """Bounds it: clipping."""
    DECAY = 6
    """Weight decay: never clipped, never in an ascent step."""
    OPTIMIZER = 7
    """Turns it into a step: momentum, Adam."""
