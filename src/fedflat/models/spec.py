"""What every named model is: a description that builds a module for given inputs and classes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import nn

from fedflat.registry.specs import TextSpec


class ModelSpec(TextSpec, ABC):
    """A frozen dataclass; ``build`` makes the module with torch's current random state."""

    @abstractmethod
    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A freshly initialised module for inputs of ``shape`` and ``classes`` outputs."""
