"""Traced gradients of single clients: the same bits, only where every call does the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from experiments.small import experiment
from fedflat.client import learner as learner_module
from fedflat.client import traced_gradients
from fedflat.client.learner import Learner
from fedflat.client.traced_gradients import MOST, traceable
from fedflat.data.examples import Batch
from fedflat.execution.in_process import InProcess
from fedflat.experiments.train import train
from fedflat.registry.specs import parse
from fedflat.tasks.classification import Regression


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace after the first gradient of a shape."""
    monkeypatch.setattr(learner_module, "PATIENCE", 1)


def learner(model: Any, **more: Any) -> Learner:
    return Learner(
        parse(model, "model") if isinstance(model, str) else model, (4,), 3, **{"seed": 0, **more}
    )


def gradients(one: Learner, batch: Batch, count: int) -> list[tuple[Tensor, Tensor, Any]]:
    one.flat.train()
    w, found = one.initial().params, []
    for _ in range(count):
        oracle = one.oracle(batch, ())
        found.append((oracle(w), oracle.loss, oracle.count))
    return found


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("task", ["classification()", "regression()"])
@pytest.mark.parametrize("model", ["mlp([5])", "mlp([7, 6])", "logistic()"])
def test_the_same_bits(model: str, task: str, dtype: str) -> None:
    one = learner(model, task=parse(task, "task"), dtype=dtype)
    numbers = isinstance(one.task, Regression)
    x = torch.randn(8, 4, dtype=one.dtype)
    batch = Batch(x, torch.randn(8, 3, dtype=one.dtype) if numbers else torch.arange(8) % 3)
    first, *others = gradients(one, batch, 5)
    assert one.traces is not None
    assert len(one.traces) == 1
    assert one.traced_gradient(one.initial().params, batch) is not None
    for gradient, loss, count in others:
        assert torch.equal(gradient, first[0])
        assert torch.equal(loss, first[1])
        assert count == first[2]


@pytest.mark.parametrize("method", ["fedavg", "fedsam(rho=0.05)", "scaffold", "feddyn(alpha=0.1)"])
def test_a_run_has_the_same_bits(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exp = replace(experiment(), method=parse(method, "method"), rounds=3)
    untraced = train(exp, executor=InProcess(1)).model
    monkeypatch.setattr(learner_module, "PATIENCE", 1)
    traced = train(exp, executor=InProcess(1)).model
    assert untraced is not None
    assert traced is not None
    assert torch.equal(untraced.params, traced.params)


class Own(nn.Module):
    """May do anything."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)  # type: ignore[no-any-return]


def frozen() -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))
    module[0].requires_grad_(False)
    return module


def hooked() -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 3))
    module.register_forward_hook(lambda part, x, output: output * 2)
    return module


@pytest.mark.parametrize(
    "model",
    [
        Own,
        frozen,
        hooked,
        lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)),
        lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)),
        lambda: nn.Sequential(nn.Linear(4, 300), nn.Linear(300, 300), nn.Linear(300, 3)),
    ],
    ids=["own", "frozen", "hooked", "dropout", "batch norm", "large"],
)
def test_what_may_differ_from_call_to_call_is_not_traced(model: Any) -> None:
    assert not traceable(learner(model))


def test_an_own_loss_is_not_traced() -> None:
    def loss(output: Tensor, y: Tensor) -> Tensor:
        return output.square().mean()

    assert traceable(learner("logistic()"))
    assert not traceable(learner("logistic()", loss=loss))


@pytest.mark.usefixtures("at_once")
def test_the_number_of_traces_is_bounded() -> None:
    one = learner("logistic()")
    for size in range(2, MOST + 10):
        gradients(one, Batch(torch.randn(size, 4), torch.arange(size) % 3), 3)
    assert one.traces is not None
    assert len(one.traces) == MOST


@pytest.mark.usefixtures("at_once")
def test_a_trace_that_differs_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced_gradients, "simplified", lambda traced: lambda w, x, y: (w, w[0]))
    one, batch = learner("logistic()"), Batch(torch.randn(8, 4), torch.arange(8) % 3)
    first, *others = gradients(one, batch, 4)
    assert all(torch.equal(first[0], gradient) for gradient, _, _ in others)
