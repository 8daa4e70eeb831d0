"""What a network asks of a machine: counted in one forward pass, never timed, so that it is the
same every time."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedflat.client.learner import Learner
from fedflat.data.batch import arguments

PART = 5e-5
"""Seconds that one module costs in a gradient, however little there is to compute."""
PRODUCT = 1e-10
"""Seconds for one product of a weight with a number, there and back: three passes at 60 billion
operations."""
NUMBER = 3e-9
"""Seconds for one number that a module makes: written, read again, and its gradient likewise."""


@dataclass(frozen=True)
class ForwardCost:
    """What one example costs, and how many modules it goes through."""

    parts: int
    numbers: int
    """The input, and what all modules make of it."""
    products: int
    """Of weights with numbers."""
    itemsize: int = 4

    def seconds(self, steps: float, samples: float) -> float:
        """About how long so many gradients of so many examples in all take one thread of a usual
        processor."""
        each = self.products * PRODUCT + self.numbers * NUMBER
        return steps * self.parts * PART + samples * each * self.itemsize / 4


def forward_cost(learner: Learner) -> ForwardCost:
    """Count the forward pass of two examples."""
    parts = numbers = products = 0

    def note(part: nn.Module, inputs: Any, output: Any) -> None:
        nonlocal parts, numbers, products
        made = output.numel() if isinstance(output, Tensor) else 0
        weights = [p for p in part.parameters(recurse=False) if p.dim() > 1]
        parts += 1
        numbers += made
        products += sum(made // len(p) * p.numel() for p in weights if len(p))

    module = copy.deepcopy(learner.flat.module)
    for part in module.modules():
        part.register_forward_hook(note)
    inputs = arguments(learner.sample)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        module.train()(*inputs)
    count, given = len(inputs[0]), sum(x.numel() for x in inputs)
    return ForwardCost(parts, (numbers + given) // count, products // count, learner.dtype.itemsize)
