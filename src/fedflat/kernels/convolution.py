"""CPU convolutions that are faster than PyTorch's, also when differentiated twice.

In the context `convolving`, 2D convolutions with enough channels use Winograd's algorithm
(`winograd`), in a third of the time on a CPU. With ``twice`` the other convolutions are replaced
too: PyTorch's second derivatives also compute gradients of the input images, which are not needed,
and use slower kernels for transposed convolutions.
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

from fedflat.kernels.winograd import TilePlan, plan_tiles

Saved = tuple[Tensor, ...]
"""Tensors of the forward pass that the backward passes reuse."""
Slopes = tuple[Tensor | None, Tensor | None]
"""Gradients by the input and by the weights, where requested."""


class ConvolutionAlgorithm(Protocol):
    """An algorithm for a convolution and its derivatives."""

    def sums(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Saved]:
        """The output, and tensors to reuse in the backward passes."""
        ...

    def slopes(
        self, out: Tensor, x: Tensor, weight: Tensor, saved: Saved, by_x: bool, by_weight: bool
    ) -> Slopes:
        """The gradients by input and weights, given the gradient by the output."""
        ...

    def second(
        self,
        out: Tensor,
        x: Tensor,
        weight: Tensor,
        saved: Saved,
        along: Slopes,
        wanted: tuple[bool, bool, bool],
    ) -> tuple[Tensor | None, ...]:
        """The gradients of ``slopes . along`` by output gradient, input and weights."""
        ...


class DirectConvolution(NamedTuple):
    """PyTorch's kernels."""

    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    def sums(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Saved]:
        """The output."""
        return conv2d(x, weight, bias, *self), ()

    def slopes(
        self, out: Tensor, x: Tensor, weight: Tensor, saved: Saved, by_x: bool, by_weight: bool
    ) -> Slopes:
        """The gradients by input and weights."""
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
        saved: Saved,
        along: Slopes,
        wanted: tuple[bool, bool, bool],
    ) -> tuple[Tensor | None, ...]:
        """The second derivatives."""
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
    """Winograd's algorithm."""

    plan: TilePlan
    padding: tuple[int, int]

    def _pad(self, x: Tensor) -> Tensor:
        above, left = self.padding
        return pad(x, (left, left, above, above)) if above or left else x

    def _crop(self, x: Tensor) -> Tensor:
        above, left = self.padding
        return x[:, :, above : x.shape[2] - above, left : x.shape[3] - left] if above or left else x

    def sums(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Saved]:
        """The output, and both transformed factors."""
        pixels, weights = self.plan.pixels(self._pad(x)), self.plan.weights(weight)
        y = self._outputs(torch.bmm(pixels, weights), x)
        return y if bias is None else y.add_(bias.view(-1, 1, 1)), (pixels, weights)

    def _outputs(self, products: Tensor, x: Tensor) -> Tensor:
        last = x.is_contiguous(memory_format=torch.channels_last)
        form = torch.channels_last if last else torch.contiguous_format
        return self.plan.to_outputs(products, len(x)).contiguous(memory_format=form)

    def slopes(
        self, out: Tensor, x: Tensor, weight: Tensor, saved: Saved, by_x: bool, by_weight: bool
    ) -> Slopes:
        """The gradients by input and weights."""
        return self._slopes(self.plan.slopes(out), x, weight, saved, by_x, by_weight)

    def _slopes(
        self, slopes: Tensor, x: Tensor, weight: Tensor, saved: Saved, by_x: bool, by_weight: bool
    ) -> Slopes:
        pixels, weights = saved
        x_slope = weight_slope = None
        if by_x:
            products = torch.bmm(slopes, weights.transpose(1, 2))
            x_slope = self._crop(self.plan.to_pixels(products, self._pad(x)))
        if by_weight:
            weight_slope = self.plan.to_weights(torch.bmm(pixels.transpose(1, 2), slopes), weight)
        return x_slope, weight_slope

    def second(
        self,
        out: Tensor,
        x: Tensor,
        weight: Tensor,
        saved: Saved,
        along: Slopes,
        wanted: tuple[bool, bool, bool],
    ) -> tuple[Tensor | None, ...]:
        """The second derivatives."""
        along_x, along_weight = along
        by_out, needs_x, needs_weight = wanted
        pixels = None if along_x is None else self.plan.pixels(self._pad(along_x))
        weights = None if along_weight is None else self.plan.weights(along_weight)
        slopes = self.plan.slopes(out)
        outs = [torch.bmm(pixels, saved[1])] if by_out and pixels is not None else []
        outs += [torch.bmm(saved[0], weights)] if by_out and weights is not None else []
        by_x = by_weight = None
        if weights is not None:
            by_x, _ = self._slopes(slopes, x, weight, (saved[0], weights), needs_x, False)
        if pixels is not None:
            _, by_weight = self._slopes(slopes, x, weight, (pixels, saved[1]), False, needs_weight)
        return self._outputs(sum(outs[1:], outs[0]), x) if outs else None, by_x, by_weight


class _Slopes(Function):
    """The gradients of a convolution as a function of output gradient, input and weight."""

    @staticmethod
    def forward(
        ctx: Any,
        out: Tensor,
        x: Tensor,
        weight: Tensor,
        algorithm: ConvolutionAlgorithm,
        by_x: bool,
        by_weight: bool,
        *saved: Tensor,
    ) -> Any:
        ctx.save_for_backward(out, x, weight, *saved)
        ctx.algorithm = algorithm
        ctx.set_materialize_grads(False)
        return algorithm.slopes(out, x, weight, saved, by_x, by_weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, along_x: Tensor | None, along_weight: Tensor | None) -> Any:
        out, x, weight, *saved = ctx.saved_tensors
        gradients = ctx.algorithm.second(
            out, x, weight, tuple(saved), (along_x, along_weight), ctx.needs_input_grad[:3]
        )
        return *gradients, *[None] * (3 + len(saved))


class _Convolution(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, algorithm: ConvolutionAlgorithm
    ) -> Tensor:
        y, saved = algorithm.sums(x, weight, bias)
        ctx.save_for_backward(x, weight, *saved)
        ctx.algorithm = algorithm
        return y

    @staticmethod
    def backward(ctx: Any, out: Tensor) -> Any:
        x, weight, *saved = ctx.saved_tensors
        by_x, by_weight, by_bias, _ = ctx.needs_input_grad
        slopes = _Slopes.apply(  # type: ignore[no-untyped-call]
            out, x, weight, ctx.algorithm, by_x, by_weight, *saved
        )
        return *slopes, out.sum((0, 2, 3)) if by_bias else None, None


class convolving(TorchFunctionMode):
    """A context in which ``conv2d`` of batches uses Winograd's algorithm where that is faster.

    always
        Use it wherever it is possible.
    never
        Use it nowhere; useful together with ``twice``.
    twice
        Other convolutions use the second derivatives of this module instead of PyTorch's.
    """

    def __init__(self, *, always: bool = False, never: bool = False, twice: bool = False) -> None:
        super().__init__()
        self.always, self.never, self.twice = always, never, twice

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Replace ``conv2d``."""
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
        algorithm = (None if self.never else self._winograd(x, weight, plain)) or (
            plain if self.twice else None
        )
        if algorithm is None:
            return func(*args)
        return _Convolution.apply(  # type: ignore[no-untyped-call]
            x, weight, bias, algorithm
        )

    def _winograd(
        self, x: Tensor, weight: Tensor, shape: DirectConvolution
    ) -> WinogradConvolution | None:
        """Winograd's algorithm if it is possible and faster; only for batches in CPU memory."""
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
        plan = plan_tiles(size, tuple(weight.shape), always=self.always)
        return None if plan is None else WinogradConvolution(plan, (above, left))


def gains(module: nn.Module) -> bool:
    """True if some layer of the module may use Winograd's algorithm.

    >>> gains(nn.Sequential(nn.Conv2d(3, 64, 5), nn.Conv2d(64, 64, 5))), gains(nn.Conv2d(3, 64, 5))
    (True, False)
    """
    layers = [part for part in module.modules() if isinstance(part, nn.Conv2d)]
    return any(
        min(layer.in_channels, layer.out_channels) >= 16 and max(layer.kernel_size) > 1
        for layer in layers
    )
