"""Tiny networks of every kind, their Hessians written out by other means, and the toy problem."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedflat.client.learner import Learner
from fedflat.core.flat import Model
from fedflat.data.examples import ClientData, Examples
from quadratic import Quadratic, mean_value

SYMMETRIC = torch.tensor([[4.0, 1, 0], [1, 3, 1], [0, 1, -5]], dtype=torch.float64)
"""Eigenvalues 4.64766356, 2.47709983, -5.12476339; trace 2."""


class Reader(nn.Module):
    """Reads words: an embedding, an LSTM of two layers, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm, self.out = (
            nn.Embedding(5, 2),
            nn.LSTM(2, 2, 2, batch_first=True),
            nn.Linear(2, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.out(self.lstm(self.words(x.long()))[0][:, -1])
        return scores


class Attentive(nn.Module):
    """Looks at all words at once."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(5, 4), nn.Linear(4, 3)
        self.look = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.words(x.long())
        scores: Tensor = self.out(self.look(seen, seen, seen, need_weights=False)[0].mean(dim=1))
        return scores


def convolution(norm: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), norm, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3)
    )


NETWORKS = {
    "mlp": lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)),
    "group norm": lambda: convolution(nn.GroupNorm(2, 4)),
    "batch norm": lambda: convolution(nn.BatchNorm2d(4)),
    "layer norm": lambda: convolution(nn.LayerNorm([4, 4, 4])),
    "lstm": Reader,
    "attention": Attentive,
    "log probabilities": lambda: nn.Sequential(
        nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3), nn.LogSoftmax(dim=-1)
    ),
    "dropout": lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 3)),
}
SHAPES = {"mlp": (3,), "log probabilities": (3,), "dropout": (3,), "lstm": (3,), "attention": (3,)}


def network(
    kind: str, count: int = 11, dtype: str = "float64"
) -> tuple[Learner, Model, ClientData]:
    """A network away from its start, with running statistics that are not those of the start
    either."""
    rng = torch.Generator().manual_seed(count)
    shape = SHAPES.get(kind, (2, 6, 6))
    words = kind in ("lstm", "attention")
    x = (
        torch.randint(5, (count, *shape), generator=rng)
        if words
        else torch.randn(count, *shape, generator=rng)
    )
    data = ClientData(
        Examples(x, torch.randint(3, (count,), generator=rng), 3), torch.arange(count)
    )
    learner = Learner(NETWORKS[kind], shape, 3, seed=1, dtype=dtype)
    start = learner.initial()
    params = start.params + 0.3 * torch.randn(
        len(start.params), generator=rng, dtype=torch.float64
    ).to(start.params)
    return (
        learner,
        Model(params, start.buffers + torch.rand(len(start.buffers), generator=rng)),
        data,
    )


def plain(learner: Learner, model: Model, data: ClientData) -> tuple[nn.Module, Tensor, Tensor]:
    """The same as an ordinary module in float64, with its inputs and labels."""
    module = learner.module().double().eval()
    buffers = [b for b in module.buffers() if b.is_floating_point()]
    with torch.no_grad():
        nn.utils.vector_to_parameters(model.params.double(), module.parameters())
        for buffer, part in zip(
            buffers, model.buffers.double().split([b.numel() for b in buffers]), strict=True
        ):
            buffer.copy_(part.view_as(buffer))
    return module, data.examples.inputs[data.index].double(), data.labels


def plain_gradient(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    parts = torch.autograd.grad(cross_entropy(module(x), y), list(module.parameters()))
    return torch.cat([part.reshape(-1) for part in parts])


@cache
def dense(kind: str, count: int = 11, step: float = 1e-5) -> Tensor:
    """The Hessian of a network by central differences of an ordinary gradient."""
    module, x, y = plain(*network(kind, count))
    w = nn.utils.parameters_to_vector(module.parameters()).detach()
    rows = []
    for i in range(len(w)):
        ends = []
        for sign in (1, -1):
            moved = w.clone()
            moved[i] += sign * step
            nn.utils.vector_to_parameters(moved, module.parameters())
            ends.append(plain_gradient(module, x, y))
        rows.append((ends[0] - ends[1]) / (2 * step))
    return torch.stack(rows)


def toy() -> tuple[Learner, Model, ClientData]:
    """F, the mean of f_1 and f_2 of the toy problem Q, at (3, 2): its Hessian is diag(1.5, 2.5)."""
    rows = torch.tensor([[2.0, 0, 0, 1, 1, -1], [1, 0, 0, 4, 0, 1]], dtype=torch.float64)
    data = ClientData(Examples(rows, torch.zeros(2, dtype=torch.long), 1), torch.arange(2))
    learner = Learner(
        Quadratic(np.array([3.0, 2.0])), (6,), 1, seed=0, loss=mean_value, dtype="float64"
    )
    return learner, learner.initial(), data
