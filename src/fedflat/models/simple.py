"""Models without convolutions, for inputs of any shape, initialized with PyTorch's defaults."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise

from torch import nn

from fedflat.errors import MOST_AT_ONCE, MOST_WEIGHTS, SettingError, number
from fedflat.models.spec import ModelSpec, features
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class Logistic(ModelSpec):
    """Multinomial logistic regression: flatten, one linear layer.

    >>> sum(p.numel() for p in logistic().build((1, 28, 28), 10).parameters())
    7850
    """

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A new module for inputs of ``shape`` and ``classes`` outputs."""
        width = features("logistic", shape, classes)
        return nn.Sequential(OrderedDict(flatten=nn.Flatten(), fc=nn.Linear(width, classes)))


@dataclass(frozen=True, repr=False)
class Mlp(ModelSpec):
    """Linear layers of widths ``hidden``, a ReLU after each, and a last linear layer.

    >>> mlp([32, 16])
    mlp(hidden=[32, 16])
    >>> sum(p.numel() for p in mlp([32]).build((4,), 3).parameters())
    259
    """

    hidden: tuple[int, ...] = (64,)
    """Widths of the hidden layers, at least one; a list will do."""

    def __post_init__(self) -> None:
        if not isinstance(self.hidden, list | tuple) or not self.hidden:
            raise SettingError(
                f"mlp: hidden must be a list of at least one width, found {self.hidden!r}. "
                "Write mlp(hidden=[64]), or logistic() for no hidden layer."
            )
        for width in self.hidden:
            number("mlp", "every width in hidden", width, low=1, high=MOST_AT_ONCE, whole=True)
        object.__setattr__(self, "hidden", tuple(self.hidden))

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A new module for inputs of ``shape`` and ``classes`` outputs."""
        width = features("mlp", shape, classes)
        return nn.Sequential(OrderedDict(flatten=nn.Flatten(), **head(width, self.hidden, classes)))


def head(
    width: int, hidden: tuple[int, ...], classes: int, *, first_relu: int = 1
) -> dict[str, nn.Module]:
    """Named linear layers from ``width`` through ``hidden`` to ``classes``, with ReLUs between.

    >>> list(head(8, (4,), 2, first_relu=3))
    ['fc1', 'relu3', 'fc2']
    """
    widths = (width, *hidden, classes)
    for before, after in pairwise(widths):
        number(
            "a linear layer",
            f"its weights, from {before} to {after} numbers,",
            before * after,
            high=MOST_WEIGHTS,
        )
    layers: dict[str, nn.Module] = {}
    for i, after in enumerate(hidden):
        layers[f"fc{i + 1}"] = nn.Linear(width, after)
        layers[f"relu{first_relu + i}"] = nn.ReLU()
        width = after
    layers[f"fc{len(hidden) + 1}"] = nn.Linear(width, classes)
    return layers


logistic = register("model", "logistic")(Logistic)
mlp = register("model", "mlp")(Mlp)
