"""Describers against numbers derived by hand and by other means."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import nn

from fedflat.client.describers.classes import confidence
from fedflat.client.describers.task2vec import (
    Probe,
    Task2Vec,
    balanced_batches,
    by_filter,
    fisher,
    sample_labels,
)
from fedflat.client.describers.weights import classifier_weights
from fedflat.client.instructions import Describe, Describer
from fedflat.client.learner import Learner
from fedflat.client.local import LocalTraining
from fedflat.client.training import ClientJob, Request, run_client
from fedflat.core.messages import Broadcast
from fedflat.data.examples import ClientData, Examples
from fedflat.errors import SettingError
from fedflat.models.simple import mlp
from fedflat.registry.specs import parse


def test_confidence() -> None:
    probabilities = torch.tensor(
        [[0.9, 0.1], [0.7, 0.3], [0.4, 0.6], [0.8, 0.2]], dtype=torch.float64
    )
    found = confidence(probabilities, torch.tensor([0, 0, 1, 1]), 2)
    torch.testing.assert_close(
        found, torch.tensor([2 / 3, 1 / 3], dtype=torch.float64), rtol=0, atol=1e-8
    )


def test_confidence_refused() -> None:
    with pytest.raises(
        SettingError, match=r"must have 3 probabilities, found an array of shape \(2, 2\)"
    ):
        confidence(torch.ones(2, 2), torch.tensor([0, 1]), 3)
    with pytest.raises(SettingError, match="no true class of the public set a probability above 0"):
        confidence(torch.tensor([[0.0, 1.0]]), torch.tensor([0]), 2)


def test_classifier_weights() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.Conv2d(1, 1, 1), nn.Linear(3, 4), nn.Linear(4, 2))
    a, b, c = (module[k].weight.reshape(-1) for k in (0, 2, 3))
    assert torch.equal(classifier_weights(module), torch.cat([a, b, c]))
    assert torch.equal(classifier_weights(module, "last"), c)
    assert torch.equal(classifier_weights(module, "last_two"), torch.cat([c, b]))
    with pytest.raises(SettingError, match="no linear layer"):
        classifier_weights(nn.Conv2d(1, 1, 1))
    with pytest.raises(SettingError, match="layers must be 'all' or"):
        classifier_weights(module, "first")


class Three(nn.Module):
    """One weight a filter, a bias that does not count, and a last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(1, 3).double()
        self.last = nn.Linear(3, 3).double()
        with torch.no_grad():
            self.body.weight.copy_(torch.tensor([[1.0], [-2.0], [0.5]]))
            self.body.bias.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.body(x))


@pytest.mark.parametrize(
    ("per", "expected"),
    [
        ("batch", (0.28260990, 0.00028353, 0.30079624)),
        ("sample", (1.14353735, 0.00045831, 1.13736469)),
    ],
)
def test_task2vec_of_one_batch(per: str, expected: tuple[float, ...]) -> None:
    probe = Probe(Three())
    x = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    found = fisher(
        probe,
        lambda features: features,
        probe.weights,
        [x],
        lambda logits: torch.tensor([0, 2]),
        per,
    )
    torch.testing.assert_close(
        by_filter(found), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-8
    )


def test_task2vec_in_expectation_over_labels() -> None:
    probe, x = Probe(Three()), torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    chances = probe(x).softmax(1).detach()
    total = torch.zeros(3, dtype=torch.float64)
    for one, two in product(range(3), repeat=2):
        labels = torch.tensor([one, two])
        found = fisher(probe, lambda f: f, probe.weights, [x], lambda logits, y=labels: y, "sample")
        total += chances[0, one] * chances[1, two] * by_filter(found)
    expected = torch.tensor([0.51406063, 0.01818880, 0.50882152], dtype=torch.float64)
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-8)


def test_labels_are_drawn_from_the_softmax() -> None:
    logits = torch.tensor([1.0, -2.0, 0.5]).repeat(3000, 1)
    shares = (
        torch.bincount(sample_labels(logits, torch.Generator().manual_seed(0)), minlength=3) / 3000
    )
    torch.testing.assert_close(
        shares, logits[0].softmax(0), rtol=0, atol=0.04
    )  # four standard deviations


def test_weights_that_task2vec_counts() -> None:
    norms = nn.GroupNorm(1, 2), nn.BatchNorm2d(2, affine=False)
    module = nn.Sequential(nn.Conv2d(1, 2, 3), *norms, nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    probe = Probe(module)
    assert [tuple(w.shape) for w in probe.weights] == [(2, 1, 3, 3), (2,)]
    assert probe(torch.zeros(5, 1, 4, 4)).shape == (5, 8)
    with pytest.raises(SettingError, match="no layer before its last one"):
        Probe(nn.Sequential(nn.Flatten(), nn.Linear(8, 3)))


def test_every_class_is_equally_likely() -> None:
    labels = torch.tensor([0] * 98 + [4, 7])
    batches = list(balanced_batches(labels, 3010, 100, torch.Generator().manual_seed(0)))
    assert [len(batch) for batch in batches] == [100] * 30
    counts = torch.bincount(labels[torch.cat(batches)])
    assert ((counts[[0, 4, 7]] - 1000).abs() < 150).all()  # the standard deviation is 26


def described(by: Describer, scale: float = 1.0, seed: int = 0) -> torch.Tensor:
    learner = Learner(mlp([6]), (4,), 3, seed=0, dtype="float64")
    x = scale * torch.randn(40, 4, generator=torch.Generator().manual_seed(1))
    data = ClientData(Examples(x, torch.arange(40) % 2, 3), torch.arange(40))
    model = learner.initial()
    broadcast = Broadcast(0, model.params, model.buffers, 0.1, instruction=Describe(by))
    reply, state = run_client(
        ClientJob(learner, (), LocalTraining(), seed), Request(5, broadcast, {}), data
    )
    assert state == {}
    assert reply.delta.numel() == 0
    return reply.extras["describe"]["vector"]


@pytest.mark.parametrize("kind", ["batch", "sample"])
def test_task2vec_as_a_client_is_asked_for_it(kind: str) -> None:
    by = parse(f"task2vec(epochs=2, draws=100, batch=10, fisher='{kind}')", "describer")
    found = described(by)
    assert found.shape == (6,)  # the filters of the hidden layer
    assert (found >= 0).all()
    assert found.sum() > 0
    assert torch.equal(found, described(by))
    assert not torch.equal(found, described(by, seed=1))
    assert (described(by, 100.0) > found).any()


def test_the_last_layer_is_fitted() -> None:
    features = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    labels = (features[:, 0] > 0).long()
    head = Task2Vec(epochs=20, draws=640, lr=0.02).fit_head(
        features, labels, 2, torch.Generator().manual_seed(0)
    )
    assert (head(features).argmax(1) == labels).float().mean() > 0.95


def test_task2vec_refused() -> None:
    with pytest.raises(
        SettingError, match="task2vec: draws must be a whole number of at least 64, found 10"
    ):
        Task2Vec(draws=10)
    with pytest.raises(SettingError, match="task2vec: fisher must be 'batch' or 'sample'"):
        Task2Vec(fisher="bach")
