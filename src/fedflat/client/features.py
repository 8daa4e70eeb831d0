"""The features of a network: the input of its last layer, observed during a forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from fedflat.client.piece import ModelInfo
from fedflat.errors import SettingError


def last_layer(module: nn.Module) -> str:
    """Return the name of the submodule that has the last parameter."""
    *_, name = (name for name, _ in module.named_parameters())
    return name.rpartition(".")[0]


def check_last_layer(owner: str, model_info: ModelInfo) -> None:
    """Refuse a network whose last layer is not linear, or a task without classes."""
    if not model_info.task.classifies:
        raise SettingError(
            f"{owner} uses the features that a classifier reads, but {model_info.task} has no classes. "
            "Use classification()."
        )
    layer = model_info.module.get_submodule(last_layer(model_info.module))
    if not isinstance(layer, nn.Linear):
        raise SettingError(
            f"{owner} uses the input of a linear last layer, found {type(layer).__name__}. Use a "
            "network that ends in nn.Linear."
        )


@contextmanager
def observed_features(module: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the input of the last layer during forward passes."""
    seen: list[Tensor] = []

    def record(part: nn.Module, inputs: tuple[Any, ...]) -> None:
        seen.append(inputs[0])

    hook = module.get_submodule(last_layer(module)).register_forward_pre_hook(record)
    try:
        yield seen
    finally:
        hook.remove()
