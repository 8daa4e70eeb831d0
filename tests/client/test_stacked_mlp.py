"""Gradients of stacked fully connected classifiers, against autograd for one client at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedflat.client.learner import Learner
from fedflat.client.stacked_gradients import StackedGradients
from fedflat.client.stacked_mlp import StackedMLP
from fedflat.data.examples import Batch
from fedflat.tasks.classification import Regression

CLIENTS, EXAMPLES, CLASSES = 4, 6, 3
NETWORKS: dict[str, Any] = {
    "linear": lambda: nn.Sequential(nn.Linear(8, CLASSES)),
    "one hidden layer": lambda: nn.Sequential(nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, CLASSES)),
    "two": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, CLASSES)
    ),
}


def learner(model: Any, **settings: Any) -> Learner:
    return Learner(model, (8,), CLASSES, seed=0, dtype="float64", **settings)


def batch_of(*shape: int) -> Batch:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(CLIENTS, EXAMPLES, *shape, dtype=torch.float64, generator=rng)
    return Batch(x, torch.randint(CLASSES, (CLIENTS, EXAMPLES), generator=rng))


def by_autograd(module: nn.Module, w: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        nn.utils.vector_to_parameters(w, module.parameters())
    loss = cross_entropy(module(x), y)
    grads = torch.autograd.grad(loss, list(module.parameters()))
    return loss.detach(), torch.cat([g.reshape(-1) for g in grads])


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("shared", [True, False])
def test_gradients_are_autograds(network: str, shared: bool) -> None:
    what, batch = learner(NETWORKS[network]), batch_of(8)
    mlp, w = StackedMLP.of(what), what.initial().params
    assert mlp is not None
    assert mlp.takes(batch)
    rng = torch.Generator().manual_seed(1)
    many = w + 0.1 * torch.randn(CLIENTS, len(w), dtype=w.dtype, generator=rng)
    losses, gradients = mlp.gradients(w if shared else many, batch.inputs, batch.targets)
    for k in range(CLIENTS):
        module = what.module().double()
        own = w if shared else many[k]
        loss, gradient = by_autograd(module, own, batch.inputs[k], batch.targets[k])
        torch.testing.assert_close(losses[k], loss, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(gradients[k], gradient, rtol=1e-12, atol=1e-14)


def test_large_scores_do_not_overflow() -> None:
    what = learner(NETWORKS["linear"])
    mlp, batch = StackedMLP.of(what), batch_of(8)
    assert mlp is not None
    losses, gradients = mlp.gradients(what.initial().params * 1e4, batch.inputs, batch.targets)
    assert bool(losses.isfinite().all())
    assert bool(gradients.isfinite().all())


def test_inputs_of_any_shape_are_flattened_if_the_network_does() -> None:
    flattens, needs_vectors = (StackedMLP.of(learner(NETWORKS[n])) for n in ("two", "linear"))
    assert flattens is not None
    assert needs_vectors is not None
    pictures = batch_of(2, 4)
    assert flattens.takes(pictures)
    assert not needs_vectors.takes(pictures)


def test_ignored_examples_are_left_to_the_general_way() -> None:
    what, batch = learner(NETWORKS["one hidden layer"]), batch_of(8)
    labels = batch.targets.clone()
    labels[:, 0] = -100
    batch = Batch(batch.inputs, labels)
    many, w = StackedGradients(what), what.initial().params
    assert many._mlp is not None
    assert not many._mlp.takes(batch)
    many.buffers = torch.zeros(CLIENTS, 0, dtype=w.dtype)
    _, gradients, *_ = many.gradients(w.expand(CLIENTS, -1), batch, ())
    _, expected = by_autograd(what.module().double(), w, batch.inputs[1][1:], labels[1][1:])
    torch.testing.assert_close(gradients[1], expected, rtol=1e-12, atol=1e-14)


def tied() -> nn.Module:
    first, second = nn.Linear(8, 8), nn.Linear(8, 8)
    second.weight = first.weight
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Linear(8, CLASSES))


def hooked() -> nn.Module:
    module: nn.Module = NETWORKS["linear"]()
    module[0].register_forward_hook(lambda *_: None)  # type: ignore[index]
    return module


def frozen() -> nn.Module:
    module: nn.Module = NETWORKS["linear"]()
    module[0].bias.requires_grad_(False)  # type: ignore[index]
    return module


@pytest.mark.parametrize(
    "model",
    [
        lambda: nn.Sequential(nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, CLASSES)),
        lambda: nn.Sequential(nn.Linear(8, CLASSES, bias=False)),
        lambda: nn.Sequential(nn.Linear(8, CLASSES), nn.ReLU()),
        lambda: nn.Sequential(nn.Linear(8, 5), nn.Linear(5, CLASSES), nn.ReLU()),
        tied,
        hooked,
        frozen,
    ],
)
def test_other_networks_are_not_taken(model: Any) -> None:
    assert StackedMLP.of(learner(model)) is None


def test_other_tasks_and_losses_are_not_taken() -> None:
    assert StackedMLP.of(learner(NETWORKS["linear"], task=Regression())) is None
    assert StackedMLP.of(learner(NETWORKS["linear"], loss=cross_entropy)) is None
