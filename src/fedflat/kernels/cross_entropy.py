"""Cross entropy of few classes, for many clients at once on a CPU.

PyTorch's softmax along a short last axis works on one row at a time: 0.15 microseconds a row with
ten classes, and as much again for the gradient. Here each operation works on all rows. The values
are the same up to rounding.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.overrides import TorchFunctionMode

FEW = 64
"""Classes up to which this is faster than PyTorch's softmax."""
IGNORED = -100
"""PyTorch's label of examples that do not count."""

DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(cross_entropy).parameters.items()
    if parameter.default is not inspect.Parameter.empty
}
"""The settings of `torch.nn.functional.cross_entropy`."""


class few_classes(TorchFunctionMode):
    """In this context `torch.nn.functional.cross_entropy` is computed by `mean_cross_entropy`.

    That holds for scores of few classes on a CPU, with one label per row and no further arguments.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """See `torch.overrides.TorchFunctionMode`."""
        if function is cross_entropy and _usual(kwargs or {}) and _suited(*args):
            return mean_cross_entropy(*args)
        return function(*args, **kwargs or {})


def _usual(settings: dict[str, Any]) -> bool:
    """Whether all settings, which PyTorch hands over by name, have their default values."""
    return all(
        settings.get(name, default) == default
        if default is not None
        else settings.get(name) is None
        for name, default in DEFAULTS.items()
    )


def _suited(scores: Tensor, labels: Tensor) -> bool:
    return (
        scores.device.type == "cpu"
        and scores.dtype in (torch.float32, torch.float64)
        and scores.dim() == 2
        and scores.shape[1] <= FEW
        and labels.dim() == 1
        and not labels.is_floating_point()
    )


def mean_cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """The mean over rows of the negative logarithm of the softmax at the row's label.

    >>> mean_cross_entropy(torch.tensor([[0.0, 0.0], [3.0, 3.0]]), torch.tensor([0, 1])).exp().item()
    2.0
    """
    shifted = scores - scores.detach().amax(1, keepdim=True)
    counts = labels != IGNORED
    own = shifted.gather(1, torch.where(counts, labels, 0).unsqueeze(1)).squeeze(1)
    losses = shifted.exp().sum(1).log() - own
    return torch.where(counts, losses, 0.0).sum() / counts.sum()
