"""Cost of a network, counted in one forward pass. It is not timed, so it is always the same."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedflat.client.learner import Learner
from fedflat.data.examples import arguments, leading

PART = 5e-5
"""Seconds that each module adds to a gradient, however small it is."""
PRODUCT = 1e-10
"""Seconds for one product of a weight with a number, forward and backward: three passes at 60
billion operations a second."""
NUMBER = 3e-9
"""Seconds for one output number of a module: written, read again, and the same for its gradient."""


@dataclass(frozen=True)
class ForwardCost:
    """Cost of the forward pass of one example."""

    parts: int
    """Number of modules."""
    numbers: int
    """Numbers in the input and in the outputs of all modules."""
    products: int
    """Products of weights with numbers."""
    itemsize: int = 4
    """Bytes of one number."""

    def seconds(self, steps: float, samples: float) -> float:
        """Estimate the CPU time of ``steps`` gradients of ``samples`` examples in all."""
        each = self.products * PRODUCT + self.numbers * NUMBER
        return steps * self.parts * PART + samples * each * self.itemsize / 4


def forward_cost(learner: Learner) -> ForwardCost:
    """Count the cost of a learner's network in a forward pass of two examples."""
    parts = numbers = products = 0

    def count_part(part: nn.Module, inputs: object, output: object) -> None:
        nonlocal parts, numbers, products
        parts += 1
        weights = [p for p in part.parameters(recurse=False) if p.dim() > 1]
        if isinstance(part, nn.RNNBase) and isinstance(output, tuple):
            steps = leading(output).shape[:-1].numel()
            numbers += steps * sum(len(p) for p in weights)
            products += steps * sum(p.numel() for p in weights)
            return
        size = output.numel() if isinstance(output, Tensor) else 0
        numbers += size
        products += sum(size // len(p) * p.numel() for p in weights if len(p))

    module = copy.deepcopy(learner.flat.module)
    for part in module.modules():
        part.register_forward_hook(count_part)
    inputs = arguments(learner.sample)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        module.train()(*inputs)
    count, input_size = len(inputs[0]), sum(x.numel() for x in inputs)
    return ForwardCost(
        parts, (numbers + input_size) // count, products // count, learner.dtype.itemsize
    )
