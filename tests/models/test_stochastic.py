"""A network with Gaussian features: probabilities averaged over samples, still in evaluation."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedflat.errors import SettingError
from fedflat.models.simple import mlp
from fedflat.models.wrapped import StochasticNet, gaussian, stochastic

X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def network(**more: int) -> StochasticNet:
    torch.manual_seed(0)
    module = stochastic(mlp([6]), dim=3, **more).build((4,), 2).double()
    assert isinstance(module, StochasticNet)
    return module


def test_its_layers() -> None:
    module = network()
    assert module.head.in_features == 3
    assert [p.shape for p in module.encoder.parameters()][-1] == (6,)  # means and spreads
    assert (module.train_samples, module.test_samples) == (15, 30)


@torch.no_grad()
def test_evaluation_is_still() -> None:
    module = network().eval()
    torch.manual_seed(1)
    one = module(X)
    state = torch.random.get_rng_state()
    torch.manual_seed(2)
    assert torch.equal(one, module(X))
    torch.manual_seed(1)
    module(X)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.testing.assert_close(one.exp().sum(1), torch.ones(5, dtype=torch.float64))


@torch.no_grad()
def test_training_draws_from_torch() -> None:
    module = network().train()
    torch.manual_seed(1)
    one = module(X)
    assert not torch.equal(one, module(X))
    torch.manual_seed(1)
    assert torch.equal(one, module(X))
    torch.testing.assert_close(one.exp().sum(1), torch.ones(5, dtype=torch.float64))


@torch.no_grad()
def test_probabilities_are_averaged_over_the_samples() -> None:
    module = network(train_samples=4).train()
    torch.manual_seed(1)
    found = module(X)
    torch.manual_seed(1)
    noise = torch.randn(4, 5, 3, dtype=torch.float64)
    mean, spread = gaussian(module.encoder(X))
    expected = sum(module.head(mean + spread * noise[i]).softmax(1) for i in range(4)) / 4
    torch.testing.assert_close(found.exp(), expected)


@torch.no_grad()
def test_the_samples_have_the_law_of_the_features() -> None:
    """With an identity for a head and many samples, the mean of the logits' softmax nears its
    expectation."""
    many, few = network(test_samples=20_000).eval(), network(test_samples=30).eval()
    mean, spread = gaussian(many.encoder(X))
    rng = torch.Generator().manual_seed(9)
    draws = mean + spread * torch.randn(20_000, 5, 3, generator=rng, dtype=torch.float64)
    expected = many.head(draws).softmax(-1).mean(0)
    torch.testing.assert_close(many(X).exp(), expected, rtol=0, atol=0.01)
    torch.testing.assert_close(few(X).exp(), expected, rtol=0, atol=0.2)


@torch.no_grad()
def test_without_spread_it_is_the_plain_network() -> None:
    module = network().eval()
    last = list(module.encoder.modules())[-1]
    assert isinstance(last, nn.Linear)
    last.weight[3:], last.bias[3:] = 0, -50
    mean, _ = gaussian(module.encoder(X))
    torch.testing.assert_close(module(X), module.head(mean).log_softmax(1), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["dim", "train_samples", "test_samples"])
def test_settings(name: str) -> None:
    with pytest.raises(
        SettingError, match=f"stochastic: {name} must be a whole number of at least 1"
    ):
        stochastic(**{name: 0})
