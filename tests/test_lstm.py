"""LSTMs step by step: PyTorch's LSTM, and stacks of clients that have one."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from fedflat.client import stacked_gradients
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.experiments.api import experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train
from fedflat.kernels.lstm import StepwiseLSTM, stepwise


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_it_is_pytorchs_lstm(layers: int, bias: bool, first: bool, given: bool) -> None:
    torch.manual_seed(0)
    plain = nn.LSTM(3, 4, layers, bias=bias, batch_first=first).double()
    ours = stepwise(copy.deepcopy(plain))
    assert type(ours) is StepwiseLSTM
    x = torch.randn(5, 6, 3, dtype=torch.float64)
    rows = 5 if first else 6
    begin = (torch.randn(2, layers, rows, 4, dtype=torch.float64).unbind(),) if given else ()
    (one, ends), (other, others) = plain(x, *begin), ours(x, *begin)
    # each state is a few dozen operations on numbers below 1
    for a, b in ((one, other), *zip(ends, others, strict=True)):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-14)
    slopes = (
        torch.autograd.grad(out.square().sum(), list(m.parameters()))
        for m, out in ((plain, one), (ours, other))
    )
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("more", [{"bidirectional": True}, {"proj_size": 2}, {"dropout": 0.5}])
def test_other_lstms_stay(more: dict[str, float]) -> None:
    module = nn.Sequential(nn.LSTM(3, 4, 2, **more))  # type: ignore[arg-type]
    assert type(stepwise(module)[0]) is nn.LSTM  # type: ignore[index]


@pytest.mark.parametrize("traced", [False, True])
def test_a_stack_trains_as_single_clients(traced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked_gradients, "PATIENCE", 0 if traced else 10**9)
    exp = experiment(
        "fedavg",
        "sayings(clients=6, examples=4, length=6)",
        model="char_lstm(embedding=3, hidden=4)",
        rounds=2,
        clients_per_round=3,
        local_steps=2,
        batch_size=2,
        lr=0.5,
    )
    setup = prepare(replace(exp, dtype="float64"))
    single, stack = (train(setup, executor=one).model for one in (InProcess(1), Stacked()))
    assert single is not None
    assert stack is not None
    torch.testing.assert_close(single.params, stack.params, rtol=1e-12, atol=1e-12)
