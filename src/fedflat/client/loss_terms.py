"""MAN: a loss term that penalizes the norm of activations.

Yashwanth et al., Minimizing Layerwise Activation Norm Improves Generalization in Federated
Learning, WACV 2024.

    loss_k <- loss_k + zeta sum_l mean(a_l^2)

``a_l`` is the output of the non-linearity of hidden layer ``l``, before pooling. The mean is over
batch, channels and positions, the sum over layers. Logits do not count. The term is part of the
loss, so SAM and similar pieces include it in their ascent. The released code has a factor 1/2:
``man_scale="repo"``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from fedflat.client.piece import ClientContext, ModelInfo, Term
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.data.examples import Batch
from fedflat.errors import SettingError, choice

ACTIVATIONS = tuple(
    getattr(nn, name)
    for name in (
        "ReLU LeakyReLU PReLU RReLU ReLU6 ELU SELU CELU GELU SiLU Mish Tanh Sigmoid Softplus "
        "Softsign Hardtanh Hardswish Hardsigmoid LogSigmoid Tanhshrink Softshrink Hardshrink "
        "Threshold GLU"
    ).split()
)
"""Classes of activation modules."""


def activations(module: nn.Module) -> dict[str, nn.Module]:
    """Return the activation modules of a network, by name."""
    return {name: part for name, part in module.named_modules() if isinstance(part, ACTIVATIONS)}


class _MeanSquare(Function):
    """``x.square().mean()`` in one pass over ``x`` and one over its gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        length: Tensor = torch.linalg.vector_norm(x)
        return length.square() / x.numel()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        grad_x: Tensor = x * (grad_output * (2 / x.numel()))
        return grad_x


class _Rectified(Function):
    """A ReLU's output for ``z`` and its mean square, with one backward pass for both."""

    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor, rectified: Tensor) -> tuple[Tensor, Tensor]:
        return rectified.view_as(rectified), _MeanSquare.forward(rectified)

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]
    ) -> None:
        ctx.save_for_backward(output[0])  # depends on z: allows double backward

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor, grad_square: Tensor) -> tuple[Tensor, None]:
        (output,) = ctx.saved_tensors
        grad_z = torch.ops.aten.threshold_backward(grad_output, output, 0)
        return torch.addcmul(grad_z, output, grad_square * (2 / output.numel())), None


@dataclass(frozen=True, repr=False)
class Man(Term):
    """``zeta`` times the sum over hidden layers of the mean squared activation.

    zeta
        Weight of the penalty, at least 0.
    man_scale
        "paper", or "repo": half of it, as in the released code.
    """

    zeta: Scalar
    man_scale: str = "paper"

    key = "man"
    stackable = True

    def __post_init__(self) -> None:
        scalar("man", "zeta", self.zeta)
        choice("man", "man_scale", self.man_scale, ["paper", "repo"])

    def check(self, model_info: ModelInfo) -> None:
        """Refuse a network without activation modules."""
        if not activations(model_info.module):
            raise SettingError(
                "man needs activation modules such as nn.ReLU and found none in the model. Use "
                "modules instead of functions such as torch.relu, one for each place."
            )

    def remark(self, model_info: ModelInfo) -> str:
        """Return which activations it found."""
        found = [
            f"{name} ({type(part).__name__})"
            for name, part in activations(model_info.module).items()
        ]
        return f"man penalises {len(found)} activations: {', '.join(found)}"

    @contextmanager
    def hooks(self, module: nn.Module) -> Iterator[list[Tensor]]:
        """Collect the mean square of each activation during the forward pass."""
        seen: list[Tensor] = []

        def record(part: nn.Module, inputs: Any, output: Tensor) -> Tensor:
            if isinstance(part, nn.ReLU) and not part.inplace:
                apply: Any = _Rectified.apply
                output, square = apply(inputs[0], output.detach())
            else:
                square = _MeanSquare.apply(output)  # type: ignore[no-untyped-call]
            seen.append(square)
            return output

        hooks = [part.register_forward_hook(record) for part in activations(module).values()]
        try:
            yield seen
        finally:
            for hook in hooks:
                hook.remove()

    def loss(self, v: ClientContext, batch: Batch, output: Tensor, seen: list[Tensor]) -> Tensor:
        scale = at(self.zeta, v.round) * (0.5 if self.man_scale == "repo" else 1.0)
        return scale * torch.stack(seen).sum()
