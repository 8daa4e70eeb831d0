"""What else could make the papers' CNN faster: the gradient of a batch by several ideas, in turn.

    python benchmarks/cnn_ideas.py
    python benchmarks/cnn_ideas.py --only bf16 pooling --repeats 20

    direct     the same as fedflat with PyTorch's convolutions
    product    the first layer, with three channels, as one matrix product of its patches
    pooling    pooling and ReLU as one function, with one pass over the images in each direction
    compile    torch.compile of a whole local step, with PyTorch's convolutions; needs a C++ compiler
    bf16       mixed precision (dtype="mixed"), with PyTorch's convolutions
    stack      four clients with own parameters at once (`vmap`, traced)
    large      one batch four times as large: the most that larger batches could gain

Everything takes one thread. The value of an idea is its speed in examples relative to fedflat's
gradient on batches of 64: the median of ratios of processor seconds within a repeat, with the
smallest and the largest, and the ratio of the least seconds. ``error`` is the distance to fedflat's
gradient, relative to its norm.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.nn.functional import cross_entropy, linear

from fedflat.client.learner import Learner
from fedflat.client.stacked_gradients import PATIENCE, StackedGradients
from fedflat.data.examples import Batch
from fedflat.kernels.allocator import keep_memory
from fedflat.models.cnn import cnn

SHAPE, CLASSES, CLIENTS, LR = (3, 32, 32), 10, 4, 0.01
Gradient = Callable[[], Tensor]


class Product(nn.Conv2d):
    """A convolution as one matrix product of all patches; images need no gradient."""

    def forward(self, x: Tensor) -> Tensor:
        """The product of patches and weights, channels last."""
        size = self.kernel_size[0]
        rows = x.shape[2] - size + 1
        patches = x.permute(0, 2, 3, 1).unfold(1, size, 1).unfold(2, size, 1)
        flat = patches.reshape(len(x) * rows * rows, -1)
        scores = linear(flat, self.weight.flatten(1), self.bias)
        return scores.view(len(x), rows, rows, -1).permute(0, 3, 1, 2)


class Pool(torch.autograd.Function):
    """The maximum of 0 and the pixels of each 2x2 square."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        ctx.corners = [x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)]
        a, b, c, d = ctx.corners
        out = torch.maximum(torch.maximum(a, b), torch.maximum(c, d)).clamp_(min=0)
        ctx.shape = x.shape
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, up: Tensor) -> Tensor:  # type: ignore[override]
        (out,) = ctx.saved_tensors
        left = up * (out > 0)
        down = torch.empty(ctx.shape, dtype=up.dtype).to(memory_format=torch.channels_last)
        for at, corner in enumerate(ctx.corners):
            here = torch.where(corner == out, left, 0.0)
            down[:, :, at // 2 :: 2, at % 2 :: 2] = here
            left = left - here  # equal pixels: the first one counts
        return down


class PoolRelu(nn.Module):
    """Pooling and ReLU as one function."""

    def forward(self, x: Tensor) -> Tensor:
        """The pooled images."""
        out: Tensor = Pool.apply(x)
        return out


def network() -> nn.Module:
    """The papers' CNN."""
    torch.manual_seed(0)
    return cnn().build(SHAPE, CLASSES)


def with_product() -> nn.Module:
    """The CNN whose first convolution is a `Product`."""
    module = network()
    first = next(part for part in module.modules() if isinstance(part, nn.Conv2d))
    first.__class__ = Product
    return module


def with_pooling() -> nn.Module:
    """The CNN with `PoolRelu`."""
    module = network()
    for parent in list(module.modules()):
        names = [name for name, part in parent.named_children() if isinstance(part, nn.MaxPool2d)]
        children = list(parent.named_children())
        for name in names:
            following = children[[n for n, _ in children].index(name) + 1][0]
            setattr(parent, name, PoolRelu())
            setattr(parent, following, nn.Identity())
    return module


def gradient_of(learner: Learner, batch: Batch) -> Gradient:
    """fedflat's gradient of a batch."""
    w = learner.initial().params
    return lambda: learner.oracle(batch, ())(w)


def learner(model: Callable[[], nn.Module] = network, **settings: Any) -> Learner:
    """A learner of a variant."""
    return Learner(model, SHAPE, CLASSES, seed=0, **settings)


def compiled(batch: Batch) -> Gradient:
    """A local step as one compiled function; what it moves the parameters by is the gradient."""
    module = network().to(memory_format=torch.channels_last)
    params = {name: p.detach() for name, p in module.named_parameters()}
    inputs = batch.inputs.contiguous(memory_format=torch.channels_last)

    def loss(named: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(functional_call(module, named, (x,)), y)

    def step(named: dict[str, Tensor], x: Tensor, y: Tensor) -> dict[str, Tensor]:
        slopes = grad(loss)(named, x, y)
        return {name: p - LR * slopes[name] for name, p in named.items()}

    fast = torch.compile(step)

    def gradient() -> Tensor:
        moved = fast(params, inputs, batch.targets)
        return torch.cat([(params[name] - moved[name]).flatten() / LR for name in params])

    return gradient


def stacked(batch: Batch) -> Gradient:
    """Several clients at once; the gradient of the first."""
    one = learner()
    start, stack = one.initial(), StackedGradients(one)
    w = torch.stack([start.params * (1 + 0.01 * client) for client in range(CLIENTS)])
    stack.buffers = start.buffers.repeat(CLIENTS, 1)
    inputs, targets = (torch.stack([part] * CLIENTS) for part in (batch.inputs, batch.targets))
    many = Batch(inputs, targets)
    for _ in range(PATIENCE + 1):
        stack.gradients(w, many, ())
    return lambda: stack.gradients(w, many, ())[1][0]


def large(batch: Batch) -> Gradient:
    """A batch with every example several times, whose gradient is the same."""
    inputs, targets = batch.inputs.repeat(CLIENTS, 1, 1, 1), batch.targets.repeat(CLIENTS)
    return gradient_of(learner(), Batch(inputs, targets))


IDEAS: dict[str, Callable[[Batch], Gradient]] = {
    "direct": lambda batch: gradient_of(learner(convolutions="direct"), batch),
    "product": lambda batch: gradient_of(learner(with_product), batch),
    "pooling": lambda batch: gradient_of(learner(with_pooling), batch),
    "compile": compiled,
    "bf16": lambda batch: gradient_of(learner(dtype="mixed"), batch),
    "stack": stacked,
    "large": large,
}
AT_ONCE = {"stack": CLIENTS, "large": CLIENTS}
"""How many batches an idea works on, where not one."""


def spent(work: Gradient) -> float:
    """Processor seconds of one gradient."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def main() -> None:
    """Measure and print."""
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("--only", nargs="*", choices=IDEAS, default=list(IDEAS))
    ask.add_argument("--repeats", type=int, default=15)
    ask.add_argument("--batch", type=int, default=64)
    args = ask.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    rng = torch.Generator().manual_seed(1)
    inputs = torch.randn(args.batch, *SHAPE, generator=rng)
    batch = Batch(inputs, torch.randint(CLASSES, (args.batch,), generator=rng))
    usual = gradient_of(learner(), batch)
    expected = usual()
    for name in args.only:
        begun = time.perf_counter()
        idea, count = IDEAS[name](batch), AT_ONCE.get(name, 1)
        error = float((idea() - expected).norm() / expected.norm())
        prepared = time.perf_counter() - begun
        idea(), usual()
        times = [(spent(usual), spent(idea) / count) for _ in range(args.repeats)]
        ratios = [one / other for one, other in times]
        least = min(one for one, _ in times) / min(other for _, other in times)
        print(
            f"{name}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), "
            f"least times {least:.2f}, error {error:.1e}, prepared in {prepared:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
