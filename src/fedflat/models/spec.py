"""The interface of models: a description that builds a module, and checks of its input shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod

from torch import nn

from fedflat.errors import SettingError, number
from fedflat.registry.specs import TextSpec


class ModelSpec(TextSpec, ABC):
    """A frozen dataclass; ``build`` initializes the module from PyTorch's current random state."""

    @abstractmethod
    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A new module for inputs of ``shape`` with ``classes`` outputs."""


def features(owner: str, shape: tuple[int, ...], classes: int) -> int:
    """The number of values in one input; refuses impossible shapes and numbers of classes.

    >>> features("logistic", (1, 28, 28), 10)
    784
    """
    if not shape:
        raise SettingError(
            f"{owner}: an input needs at least one dimension, found the shape (). Use (1,)."
        )
    for length in shape:
        number(owner, "every length of the input's shape", length, low=1, whole=True)
    number(owner, "classes", classes, low=1, whole=True)
    return prod(shape)


def image(
    owner: str, shape: tuple[int, ...], classes: int, *, smallest: int
) -> tuple[int, int, int]:
    """Channels, height and width of an image of at least ``smallest`` pixels a side.

    >>> image("cnn", (1, 8, 8), 10, smallest=16)
    Traceback (most recent call last):
        ...
    fedflat.errors.SettingError: cnn: images must have at least 16x16 pixels, found 8x8. Use mlp().
    """
    if len(shape) != 3:
        raise SettingError(
            f"{owner}: inputs must be images of shape (channels, height, width), found "
            f"{tuple(shape)}. Use mlp() or logistic() for other inputs."
        )
    features(owner, shape, classes)
    channels, height, width = shape
    if min(height, width) < smallest:
        raise SettingError(
            f"{owner}: images must have at least {smallest}x{smallest} pixels, found "
            f"{height}x{width}. Use mlp()."
        )
    return channels, height, width


def divides(owner: str, groups: int, channels: int) -> None:
    """Refuse ``groups`` of GroupNorm that do not split ``channels`` evenly.

    >>> divides("resnet18", 3, 64)
    Traceback (most recent call last):
        ...
    fedflat.errors.SettingError: resnet18: groups must divide 64 channels, found 3. Use 1, 2, 4, ...
    """
    number(owner, "groups", groups, low=1, whole=True)
    if channels % groups:
        raise SettingError(
            f"{owner}: groups must divide {channels} channels, found {groups}. Use 1, 2, 4, ..."
        )
