"""Mixed precision: parameters and steps in float32, the passes of training in bfloat16."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedflat.client.learner import Learner
from fedflat.data.examples import Batch
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.experiments.api import experiment
from fedflat.experiments.train import train


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))


def test_the_gradient_is_that_of_autocast() -> None:
    x, y = torch.randn(8, 64), torch.arange(8)
    learner = Learner(module(), (64,), 10, seed=0, dtype="mixed")
    w = learner.initial().params
    found = learner.oracle(Batch(x, y), [])(w)
    own = module()
    with torch.autocast("cpu", torch.bfloat16):
        output = own(x)
    assert output.dtype == torch.bfloat16
    cross_entropy(output.float(), y).backward()
    assert found.dtype == torch.float32
    assert torch.equal(
        found, torch.cat([p.grad.flatten() for p in own.parameters() if p.grad is not None])
    )
    exact = Learner(module(), (64,), 10, seed=0).oracle(Batch(x, y), [])(w)
    assert not torch.equal(found, exact)
    torch.testing.assert_close(found, exact, atol=0.02 * float(exact.abs().max()), rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("executor", [InProcess(1), Stacked()])
def test_a_run_in_mixed_precision_learns_the_same(executor: Executor) -> None:
    settings: dict[str, Any] = {
        "rounds": 8,
        "clients_per_round": 4,
        "local_epochs": 5,
        "batch_size": 16,
        "lr": 0.1,
        "eval_last": 1,
    }
    exp = experiment("fedsam(rho=0.05)", "digits(lda(1), clients=8)", dtype="mixed", **settings)
    mixed = train(exp, executor=executor)
    full = train(replace(exp, dtype="float32"), executor=InProcess(1))
    assert mixed.model is not None
    assert mixed.model.params.dtype == torch.float32
    assert full.final() > 0.6
    assert abs(mixed.final() - full.final()) < 0.1
    assert not torch.equal(mixed.model.params, full.model.params)  # type: ignore[union-attr]
