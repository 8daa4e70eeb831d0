"""Convolutions that are quicker than torch's, and compute nothing in vain when they are derived
twice.

Inside `convolving`, two-dimensional convolutions with enough channels are made by fewer products
(`winograd`): in a third of the time on a CPU. Whoever derives twice wants the others too: torch's
own derive the slope of each of them by its input, the images of the first layer included, and take
slower kernels for transposed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import conv2d, pad
from torch.overrides import TorchFunctionMode

from fedflat.kernels.winograd import TilePlan, planned

Kept = tuple[Tensor, ...]
"""What of the first pass serves those after it."""
Slopes = tuple[Tensor | None, Tensor | None]
"""By the input and by the weights, where asked."""


class ConvolutionAlgorithm(Protocol):
    """A way to make a convolution and its derivatives."""

    def sums(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Kept]:
        """The output."""
        ...

    def slopes(
        self, out: Tensor, x: Tensor, weight: Tensor, kept: Kept, by_x: bool, by_weight: bool
    ) -> Slopes:
        """The slopes, given those by the output."""
        ...

    def second(
        self,
        out: Tensor,
        x: Tensor,
        weight: Tensor,
        kept: Kept,
        along: Slopes,
        wanted: tuple[bool, bool, bool],
    ) -> tuple[Tensor | None, ...]:
        """The slopes of ``slopes . along`` by the output's slopes, the input and the weights, where
        wanted."""
        ...


class DirectConvolution(NamedTuple):
    """By torch's kernels."""

    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    def sums(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Kept]:
        """The output."""
        return conv2d(x, weight, bias, *self), ()

    def slopes(
        self, out: Tensor, x: Tensor, weight: Tensor, kept: Kept, by_x: bool, by_weight: bool
    ) -> Slopes:
        """The slopes, given those by the output."""
        if not (by_x or by_weight):
            return None, None
        by = torch.ops.aten.convolution_backward(
            out,
            x,
            weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            False,
            (0, 0),
            self.groups,
            (by_x, by_weight, False),
        )
        return by[0], by[1]

    def second(
        self,
        out: Tensor,
        x: Tensor,
        weight: Tensor,
        kept: Kept,
        along: Slopes,
        wanted: tuple[bool, bool, bool],
    ) -> tuple[Tensor | None, ...]:
        """The slopes of ``slopes . along``."""
        along_x, along_weight = along
        by_out, needs_x, needs_weight = wanted
        outs = [self.sums(along_x, weight)[0]] if by_out and along_x is not None else []
        outs += [self.sums(x, along_weight)[0]] if by_out and along_weight is not None else []
        by_x = by_weight = None
        if along_weight is not None:
            by_x, _ = self.slopes(out, x, along_weight, (), needs_x, False)
        if along_x is not None:
            _, by_weight = self.slopes(out, along_x, weight, (), False, needs_weight)
        return sum(outs[1:], outs[0]) if outs else None, by_x, by_weight


class WinogradConvolution(NamedTuple):
    """By fewer products."""

    plan: TilePlan
    padding: tuple[int, int]

    def _padded(self, x: Tensor) -> Tensor:
        above, left = self.padding
        return pad(x, (left, left, above, above)) if above or left else x

    def _cropped(self, x: Tensor) -> Tensor:
        above, left = self.padding
        return x[:, :, above : x.shape[2] - above, left : x.shape[3] - left] if above or left else x

    def sums(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Kept]:
        """The output, and both factors at the points."""
        pixels, weights = self.plan.pixels(self._padded(x)), self.plan.weights(weight)
        y = self._outputs(torch.bmm(pixels, weights), x)
        return y if bias is None else y.add_(bias.view(-1, 1, 1)), (pixels, weights)

    def _outputs(self, products: Tensor, x: Tensor) -> Tensor:
        last = x.is_contiguous(memory_format=torch.channels_last)
        form = torch.channels_last if last else torch.contiguous_format
        return self.plan.to_outputs(products, len(x)).contiguous(memory_format=form)

    def slopes(
        self, out: Tensor, x: Tensor, weight: Tensor, kept: Kept, by_x: bool, by_weight: bool
    ) -> Slopes:
        """The slopes, given those by the output."""
        return self._slopes(self.plan.slopes(out), x, weight, kept, by_x, by_weight)

    def _slopes(
        self, slopes: Tensor, x: Tensor, weight: Tensor, kept: Kept, by_x: bool, by_weight: bool
    ) -> Slopes:
        pixels, weights = kept
        x_slope = weight_slope = None
        if by_x:
            products = torch.bmm(slopes, weights.transpose(1, 2))
            x_slope = self._cropped(self.plan.to_pixels(products, self._padded(x)))
        if by_weight:
            weight_slope = self.plan.to_weights(torch.bmm(pixels.transpose(1, 2), slopes), weight)
        return x_slope, weight_slope

    def second(
        self,
        out: Tensor,
        x: Tensor,
        weight: Tensor,
        kept: Kept,
        along: Slopes,
        wanted: tuple[bool, bool, bool],
    ) -> tuple[Tensor | None, ...]:
        """The slopes of ``slopes . along``."""
        along_x, along_weight = along
        by_out, needs_x, needs_weight = wanted
        pixels = None if along_x is None else self.plan.pixels(self._padded(along_x))
        weights = None if along_weight is None else self.plan.weights(along_weight)
        slopes = self.plan.slopes(out)
        outs = [torch.bmm(pixels, kept[1])] if by_out and pixels is not None else []
        outs += [torch.bmm(kept[0], weights)] if by_out and weights is not None else []
        by_x = by_weight = None
        if weights is not None:
            by_x, _ = self._slopes(slopes, x, weight, (kept[0], weights), needs_x, False)
        if pixels is not None:
            _, by_weight = self._slopes(slopes, x, weight, (pixels, kept[1]), False, needs_weight)
        return self._outputs(sum(outs[1:], outs[0]), x) if outs else None, by_x, by_weight


class _Slopes(Function):
    """The slopes of a convolution, as a function of those of its output, its input and its
    weight."""

    @staticmethod
    def forward(
        ctx: Any,
        out: Tensor,
        x: Tensor,
        weight: Tensor,
        way: ConvolutionAlgorithm,
        by_x: bool,
        by_weight: bool,
        *kept: Tensor,
    ) -> Any:
        ctx.save_for_backward(out, x, weight, *kept)
        ctx.way = way
        ctx.set_materialize_grads(False)
        return way.slopes(out, x, weight, kept, by_x, by_weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, along_x: Tensor | None, along_weight: Tensor | None) -> Any:
        out, x, weight, *kept = ctx.saved_tensors
        found = ctx.way.second(
            out, x, weight, tuple(kept), (along_x, along_weight), ctx.needs_input_grad[:3]
        )
        return *found, *[None] * (3 + len(kept))


class _Convolution(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, way: ConvolutionAlgorithm
    ) -> Tensor:
        y, kept = way.sums(x, weight, bias)
        ctx.save_for_backward(x, weight, *kept)
        ctx.way = way
        return y

    @staticmethod
    def backward(ctx: Any, out: Tensor) -> Any:
        x, weight, *kept = ctx.saved_tensors
        by_x, by_weight, by_bias, _ = ctx.needs_input_grad
        slopes = _Slopes.apply(out, x, weight, ctx.way, by_x, by_weight, *kept)  # type: ignore[no-untyped-call]
        return *slopes, out.sum((0, 2, 3)) if by_bias else None, None


class convolving(TorchFunctionMode):
    """A context in which ``conv2d`` of batches is made by fewer products where that is quicker.

    always
        Wherever it is possible.
    never
        Nowhere; for those who want what else there is.
    twice
        What is not made so is derived twice by the formulas here, and not by torch's.
    """

    def __init__(self, *, always: bool = False, never: bool = False, twice: bool = False) -> None:
        super().__init__()
        self.always, self.never, self.twice = always, never, twice

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Take the place of ``conv2d``."""
        kwargs = kwargs or {}
        if (
            func is not conv2d
            or kwargs
            or len(args) != 7
            or args[0].dim() != 4
            or isinstance(args[4], str)
        ):
            return func(*args, **kwargs)
        x, weight, bias, *shape = args
        plain = DirectConvolution(*shape)
        way = (None if self.never else self._fewer(x, weight, plain)) or (
            plain if self.twice else None
        )
        return func(*args) if way is None else _Convolution.apply(x, weight, bias, way)  # type: ignore[no-untyped-call]

    def _fewer(
        self, x: Tensor, weight: Tensor, shape: DirectConvolution
    ) -> WinogradConvolution | None:
        """The way of fewer products, if it is one, for a batch of images in a CPU's memory."""
        even = tuple(shape.stride) == tuple(shape.dilation) == (1, 1) and shape.groups == 1
        if (
            not even
            or x.device.type != "cpu"
            or x.dtype != weight.dtype
            or max(weight.shape[2:]) == 1
        ):
            return None
        above, left = shape.padding
        size = (*x.shape[:2], x.shape[2] + 2 * above, x.shape[3] + 2 * left)
        plan = planned(size, tuple(weight.shape), always=self.always)
        return None if plan is None else WinogradConvolution(plan, (above, left))


def gains(module: nn.Module) -> bool:
    """Whether some layer of the module may be made by fewer products.

    >>> gains(nn.Sequential(nn.Conv2d(3, 64, 5), nn.Conv2d(64, 64, 5))), gains(nn.Conv2d(3, 64, 5))
    (True, False)
    """
    layers = [part for part in module.modules() if isinstance(part, nn.Conv2d)]
    return any(
        min(one.in_channels, one.out_channels) >= 16 and max(one.kernel_size) > 1 for one in layers
    )
