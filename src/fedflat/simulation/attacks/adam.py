"""Adam for the parameters of a module. Importing the optimisers of torch takes seconds."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

EPSILON = 1e-8


class ModuleAdam:
    """Adam with epsilon 1e-8 on every trainable parameter.

    A step is ``lr * m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + 1e-8)``.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, betas: tuple[float, float]
    ) -> None:
        self.parameters = [one for one in parameters if one.requires_grad]
        self.lr, self.betas, self.steps = lr, betas, 0
        self.first, self.second = (
            [torch.zeros_like(one) for one in self.parameters] for _ in range(2)
        )

    def step(self, loss: Tensor) -> None:
        """Make one step against the gradient of `loss`."""
        gradients = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        (b1, b2), self.steps = self.betas, self.steps + 1
        with torch.no_grad():
            for w, g, m, v in zip(self.parameters, gradients, self.first, self.second, strict=True):
                m.mul_(b1).add_(g, alpha=1 - b1)
                v.mul_(b2).addcmul_(g, g, value=1 - b2)
                scale = (v / (1 - b2**self.steps)).sqrt_().add_(EPSILON)
                w.addcdiv_(m, scale, value=-self.lr / (1 - b1**self.steps))
