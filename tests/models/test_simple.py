"""Logistic regression and multilayer perceptrons."""

from __future__ import annotations

import pytest
import torch

from fedflat import logistic, mlp
from fedflat.errors import SettingError, SpellingError
from fedflat.registry.specs import parse


def test_logistic_is_one_affine_map() -> None:
    module = logistic().build((2, 3), 4).double()
    x = torch.randn(5, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight, bias = module.parameters()
    assert weight.shape == (4, 6)
    torch.testing.assert_close(module(x), x.reshape(5, 6) @ weight.T + bias)


def test_mlp_is_written_out() -> None:
    module = mlp(hidden=[7, 5]).build((2, 3), 4).double()
    x = torch.randn(6, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    w1, b1, w2, b2, w3, b3 = module.parameters()
    hidden = (x.reshape(6, 6) @ w1.T + b1).clamp(min=0)
    hidden = (hidden @ w2.T + b2).clamp(min=0)
    torch.testing.assert_close(module(x), hidden @ w3.T + b3)


def test_hidden_is_a_list_a_tuple_or_left_out() -> None:
    assert mlp(hidden=[64]) == mlp(hidden=(64,)) == mlp() == parse("mlp", "model")
    assert repr(mlp(hidden=[64])) == "mlp()"
    assert parse("mlp([32, 16])", "model") == mlp(hidden=(32, 16))


@pytest.mark.parametrize("hidden", [[], 64, "64", None])
def test_hidden_must_be_a_list(hidden: object) -> None:
    with pytest.raises(SettingError, match=r"mlp: hidden must be a list of at least one width"):
        mlp(hidden=hidden)


@pytest.mark.parametrize("width", [0, -3, 2.5, True])
def test_widths_must_be_whole_and_positive(width: object) -> None:
    with pytest.raises(
        SettingError, match="every width in hidden must be a whole number of at least 1"
    ):
        mlp(hidden=[8, width])


def test_a_scalar_input_is_refused() -> None:
    with pytest.raises(SettingError, match="at least one dimension"):
        logistic().build((), 2)


def test_an_unknown_argument_is_answered() -> None:
    with pytest.raises(SpellingError, match="Did you mean 'hidden'"):
        parse("mlp(hiden=[3])", "model")
