"""Terms of the loss.

MAN: Yashwanth et al., Minimizing Layerwise Activation Norm Improves Generalization in Federated
Learning, WACV 2024.

    loss_k <- loss_k + zeta sum_l mean(a_l^2)

``a_l`` is what comes out of the non-linearity of hidden layer ``l``, before pooling; the mean runs
over batch, channels and positions, the sum over layers. Logits do not count. The term is part of
the loss, so it is in the ascent of SAM and its kin too. The released code has a factor 1/2:
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
from fedflat.data.batch import Batch
from fedflat.errors import SettingError, choice

ACTIVATIONS = tuple(
    getattr(nn, name)
    for name in (
        "ReLU LeakyReLU PReLU RReLU ReLU6 ELU SELU CELU GELU SiLU Mish Tanh Sigmoid Softplus Softsign Hardtanh "
        "Hardswish Hardsigmoid LogSigmoid Tanhshrink Softshrink Hardshrink Threshold GLU"
    ).split()
)


def activations(module: nn.Module) -> dict[str, nn.Module]:
    """The activation modules of a network, by name."""
    return {name: part for name, part in module.named_modules() if isinstance(part, ACTIVATIONS)}


class _MeanSquare(Function):
    """``x.square().mean()``, which goes through ``x`` once and through its slopes once: activations
    are large."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        length: Tensor = torch.linalg.vector_norm(x)
        return length.square() / x.numel()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        by_x: Tensor = x * (slope * (2 / x.numel()))
        return by_x


class _Rectified(Function):
    """What a ReLU has made of ``z``, and the mean of its squares, derived together: both slopes end
    where it is 0."""

    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor, rectified: Tensor) -> tuple[Tensor, Tensor]:
        return rectified.view_as(rectified), _MeanSquare.forward(rectified)

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]
    ) -> None:
        ctx.save_for_backward(output[0])  # known to hang on z, so that it can be derived twice

    @staticmethod
    def backward(ctx: Any, slopes: Tensor, by_square: Tensor) -> tuple[Tensor, None]:
        (output,) = ctx.saved_tensors
        by_z = torch.ops.aten.threshold_backward(slopes, output, 0)
        return torch.addcmul(by_z, output, by_square * (2 / output.numel())), None


@dataclass(frozen=True, repr=False)
class Man(Term):
    """``zeta`` times the sum over hidden layers of the mean squared activation."""

    zeta: Scalar
    man_scale: str = "paper"

    key = "man"
    stackable = True

    def __post_init__(self) -> None:
        scalar("man", "zeta", self.zeta)
        choice("man", "man_scale", self.man_scale, ["paper", "repo"])

    def check(self, site: ModelInfo) -> None:
        """Refuse a network whose activations cannot be seen."""
        if not activations(site.module):
            raise SettingError(
                "man looks for activation modules (nn.ReLU and the like) in the model and found none. Use modules "
                "instead of functions such as torch.relu, one for each place."
            )

    def remark(self, site: ModelInfo) -> str:
        """Which activations it found."""
        found = [
            f"{name} ({type(part).__name__})" for name, part in activations(site.module).items()
        ]
        return f"man penalises {len(found)} activations: {', '.join(found)}"

    @contextmanager
    def hooks(self, module: nn.Module) -> Iterator[list[Tensor]]:
        """The mean square of each activation, as the forward pass meets it."""
        seen: list[Tensor] = []

        def note(part: nn.Module, inputs: Any, output: Tensor) -> Tensor:
            if isinstance(part, nn.ReLU) and not part.inplace:
                output, square = _Rectified.apply(inputs[0], output.detach())  # type: ignore[no-untyped-call]
            else:
                square = _MeanSquare.apply(output)  # type: ignore[no-untyped-call]
            seen.append(square)
            return output

        hooks = [part.register_forward_hook(note) for part in activations(module).values()]
        try:
            yield seen
        finally:
            for hook in hooks:
                hook.remove()

    def loss(self, v: ClientContext, batch: Batch, output: Tensor, seen: list[Tensor]) -> Tensor:
        """The term's value."""
        scale = at(self.zeta, v.round) * (0.5 if self.man_scale == "repo" else 1.0)
        return scale * torch.stack(seen).sum()
