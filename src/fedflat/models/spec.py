"""What every named model is: a description that builds a module for given inputs and classes."""

from __future__ import annotations

from torch import nn

from fedflat.spelling import Spelled


class ModelSpec(Spelled):
    """A frozen dataclass; ``build`` makes the module with torch's current random state."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A freshly initialised module for inputs of ``shape`` and ``classes`` outputs."""
        raise NotImplementedError
