"""A workload in PyTorch: its tensors, its model, and the loss of that model on the probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from same_work import CLASSES, Workload
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


def tensors(workload: Workload) -> tuple[Tensor, Tensor]:
    """Inputs (clients, examples, *shape) and labels (clients, examples)."""
    x, y = workload.arrays()
    return torch.from_numpy(x), torch.from_numpy(y)


def threads(workload: Workload) -> int:
    """Threads that serve best a framework that works in one process: torch's own number, but one
    for the MLP."""
    return torch.get_num_threads() if workload.images else 1


def step(workload: Workload, optimiser: torch.optim.Optimizer, loss: Callable[[], Tensor]) -> None:
    """One step of SGD, or of SAM if the workload has a radius."""
    optimiser.zero_grad()
    loss().backward()
    if not workload.rho:
        optimiser.step()
        return
    params = optimiser.param_groups[0]["params"]
    with torch.no_grad():
        norm = torch.linalg.vector_norm(
            torch.stack([torch.linalg.vector_norm(p.grad) for p in params])
        )
        ways = [p.grad * (workload.rho / (norm + 1e-12)) for p in params]
        for p, way in zip(params, ways, strict=True):
            p.add_(way)
    optimiser.zero_grad()
    loss().backward()
    with torch.no_grad():
        for p, way in zip(params, ways, strict=True):
            p.sub_(way)
    optimiser.step()


def trained(workload: Workload) -> int:
    """The examples that this process has trained on since it was last asked."""
    seen, Counting.seen = Counting.seen, 0
    return seen // workload.passes


class Counting(nn.Sequential):
    """Counts, for the process, the examples that went through it."""

    seen: ClassVar[int] = 0

    def forward(self, x: Tensor) -> Tensor:
        """As nn.Sequential."""
        Counting.seen += len(x)
        return super().forward(x)


def model(workload: Workload) -> nn.Module:
    """A fresh module, each time with the same numbers in it."""
    torch.manual_seed(0)
    return _cnn() if workload.images else _mlp(workload.shape[0])


def probe_loss(module: nn.Module, workload: Workload) -> float:
    """The mean loss on the probe, whose examples are not counted."""
    x, y = (torch.from_numpy(part) for part in workload.probe())
    seen = Counting.seen
    with torch.no_grad():
        loss = float(cross_entropy(module(x), y))
    Counting.seen = seen
    return loss


def _cnn() -> nn.Module:
    """797,962 parameters. It pools before the ReLU, as ``fedflat.cnn``: the same function, cheaper
    for everybody."""
    return Counting(
        nn.Conv2d(3, 64, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1600, 384),
        nn.ReLU(),
        nn.Linear(384, 192),
        nn.ReLU(),
        nn.Linear(192, CLASSES),
    )


def _mlp(width: int) -> nn.Module:
    return Counting(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, CLASSES))
