"""The interface of models: a description that builds a module for given inputs and classes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import nn

from fedflat.registry.specs import TextSpec


class ModelSpec(TextSpec, ABC):
    """A frozen dataclass; ``build`` initializes the module from PyTorch's current random state."""

    @abstractmethod
    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A new module for inputs of ``shape`` with ``classes`` outputs."""
