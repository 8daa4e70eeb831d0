"""Gradients of a small network for one client, as a flat list of operations.

A step of a small network takes longer in Python and in autograd than in arithmetic. If batches of
the same shapes come often, the gradient is traced once, and the list of operations runs without
modules and without autograd. These are the operations that autograd performs, so the bits are the
same; a trace that differs on its first batch is not used. The learner counts the batches and keeps
the traces (`Learner.traced_gradient`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedflat.client.traced_graph import recorded, simplified
from fedflat.data.examples import Batch
from fedflat.tasks.classification import Classification, Regression
from fedflat.tasks.task import Count

if TYPE_CHECKING:
    from fedflat.client.learner import Learner

PATIENCE = 200
"""Number of gradients with the same shapes before they are traced: a trace takes as long as it saves
in about so many steps."""
MOST = 32
"""Most shapes that are traced."""
PARAMETERS = 50_000
"""Parameters below which most of a step is not arithmetic."""
LAYERS = (
    nn.Sequential,
    nn.Linear,
    nn.ReLU,
    nn.Tanh,
    nn.Sigmoid,
    nn.Flatten,
    nn.Unflatten,
    nn.Identity,
)
"""Layers that do the same in every call: they have no buffers and draw no random numbers."""
TASKS = (Classification, Regression)
"""Tasks whose loss is the same function in every call."""

Gradient = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Function of parameters, inputs and targets: gradient and loss."""
Trace = tuple[Gradient | None, int]
"""Such a function with the number of items in the loss; None if autograd is to be used."""


def trace_gradient(learner: Learner, w: Tensor, batch: Batch) -> Trace:
    """Return the gradient of batches of these shapes as a list of operations."""
    counts: list[Count] = []
    layout = learner.flat.layout

    def gradient(w: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        parts = [
            part.view(shape).detach().requires_grad_()
            for part, shape in zip(w.split(layout.sizes), layout.shapes, strict=True)
        ]
        named = dict(zip(layout.names, parts, strict=True))
        output = functional_call(learner.flat.module, named, (x,))
        loss, count = learner.mean(output, Batch(x, y))
        counts.append(count)
        slopes = torch.autograd.grad(loss, parts)
        return torch.cat([slope.reshape(-1) for slope in slopes]), loss.detach()

    given = w, batch.inputs, batch.targets
    try:
        with torch.enable_grad():
            expected = gradient(*given)
            traced = simplified(recorded(gradient, *given))
        same = all(map(torch.equal, traced(*given), expected))
    except Exception:  # it works without a trace, only slower
        return None, 0
    count = counts[0]
    return (traced, count) if same and isinstance(count, int) else (None, 0)


def traceable(learner: Learner) -> bool:
    """Whether the network is small and has only layers that do the same in every call."""
    flat = learner.flat
    return (
        flat.layout.dim < PARAMETERS
        and not flat.layout.frozen
        and learner.device == "cpu"
        and not learner.mixed
        and type(learner.task) in TASKS
        and all(type(part) in LAYERS and not _has_hooks(part) for part in flat.module.modules())
        and all(parameter.requires_grad for parameter in flat.module.parameters())
    )


def _has_hooks(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )
