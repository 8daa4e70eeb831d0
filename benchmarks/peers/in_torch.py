"""A workload in PyTorch: its tensors, its model, and the loss of that model on the probe."""

from __future__ import annotations

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
    """The mean loss on the probe."""
    x, y = (torch.from_numpy(part) for part in workload.probe())
    with torch.no_grad():
        return float(cross_entropy(module(x), y))


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
