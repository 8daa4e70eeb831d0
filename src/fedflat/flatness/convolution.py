"""Convolutions whose second derivatives compute nothing in vain.

torch's own derive the slope of every convolution by its input, the images of the first layer included, and
take slower kernels for transposed ones. Inside `lean`, two-dimensional convolutions are these: the same numbers
up to rounding, for a tenth less time of a product with the Hessian of the papers' CNN once its graph is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import conv2d
from torch.overrides import TorchFunctionMode


class _Shape(NamedTuple):
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    def slopes(
        self, out: Tensor, x: Tensor, weight: Tensor, by_x: bool, by_weight: bool
    ) -> tuple[Tensor | None, Tensor | None]:
        """The slopes by input and by weight where asked, given those by the output."""
        if not (by_x or by_weight):
            return None, None
        by = torch.ops.aten.convolution_backward(
            out, x, weight, None, self.stride, self.padding, self.dilation, False, (0, 0), self.groups,
            (by_x, by_weight, False),
        )  # fmt: skip
        return by[0], by[1]


class _Slopes(Function):
    """The slopes of a convolution, as a function of those of its output, its input and its weight."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, x: Tensor, weight: Tensor, shape: _Shape, by_x: bool, by_weight: bool) -> Any:
        ctx.save_for_backward(out, x, weight)
        ctx.shape = shape
        ctx.set_materialize_grads(False)
        return shape.slopes(out, x, weight, by_x, by_weight)

    @staticmethod
    def backward(ctx: Any, along_x: Tensor | None, along_weight: Tensor | None) -> Any:
        out, x, weight = ctx.saved_tensors
        by_out, needs_x, needs_weight, *_ = ctx.needs_input_grad
        outs = [conv2d(along_x, weight, None, *ctx.shape)] if by_out and along_x is not None else []
        outs += [conv2d(x, along_weight, None, *ctx.shape)] if by_out and along_weight is not None else []
        by_x = by_weight = None
        if along_weight is not None:
            by_x, _ = ctx.shape.slopes(out, x, along_weight, needs_x, False)
        if along_x is not None:
            _, by_weight = ctx.shape.slopes(out, along_x, weight, False, needs_weight)
        return sum(outs) if outs else None, by_x, by_weight, None, None, None


class _Convolution(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, shape: _Shape) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.shape = shape
        return conv2d(x, weight, bias, *shape)

    @staticmethod
    def backward(ctx: Any, out: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        by_x, by_weight = _Slopes.apply(out, x, weight, ctx.shape, needs_x, needs_weight)  # type: ignore[no-untyped-call]
        return by_x, by_weight, out.sum((0, 2, 3)) if needs_bias else None, None


class lean(TorchFunctionMode):
    """A context in which ``conv2d`` of batches has lean second derivatives; other calls stay as they are."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Take the place of ``conv2d``."""
        kwargs = kwargs or {}
        if func is not conv2d or kwargs or len(args) != 7 or args[0].dim() != 4 or isinstance(args[4], str):
            return func(*args, **kwargs)
        x, weight, bias, *shape = args
        return _Convolution.apply(x, weight, bias, _Shape(*shape))  # type: ignore[no-untyped-call]
