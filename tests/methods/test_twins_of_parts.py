"""Methods that treat a part of the model by itself, against their literal twins to 1e-10: tensors
with a radius of their own, SAM along the last gradient, FedALA's blend of the last tensors.

The runs are those of ``test_against_twins``. Where a method draws, its twin is fed what was drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fedflat.core.seeds import torch_generator
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from literal import fedala, last_sam, layerwise_sam
from literal.problem import Plan, Problem, random_plan, random_problem
from methods.test_against_twins import HARD, ROUNDS, agree, same
from methods.test_more_twins import local_models, slower, stored_states

Some = tuple[Problem, Plan]
LAYERS = {"first": 3, "second": 2, "third": 1, "fourth": 2}
CUT = [[0, 1, 2], [3, 4], [5], [6, 7]]
EXECUTORS = pytest.mark.parametrize(
    "executor", [InProcess(), Stacked()], ids=["one by one", "stacked"]
)


@pytest.fixture(scope="module", params=["plain", "decay, momentum, clip"])
def some(request: pytest.FixtureRequest) -> Some:
    problem = random_problem(31, dim=8)
    more: dict[str, Any] = {} if request.param == "plain" else HARD
    return problem, random_plan(31, problem, ROUNDS, cohort=(1, 3), **more)


@EXECUTORS
def test_layerwise_sam(some: Some, executor: Executor) -> None:
    trace = layerwise_sam.run(*slower(some, 0.9), rho=0.3, layers=CUT)
    text = "layerwise_sam(rho=0.3) + server_sgd(0.9) + all_clients()"
    run_folder = agree(text, trace, some, layers=LAYERS, executor=executor)
    local_models(run_folder, trace, some[1])


@EXECUTORS
def test_last_sam(some: Some, executor: Executor) -> None:
    """The gradient is kept from request to request."""
    trace = last_sam.run(*slower(some, 0.9), rho=0.3)
    run_folder = agree(
        "last_sam(rho=0.3) + server_sgd(0.9) + all_clients()", trace, some, executor=executor
    )
    local_models(run_folder, trace, some[1])
    zero = np.zeros(some[0].dim)
    expected = [[zero if g is None else g for g in last] for last in trace.last]
    same(stored_states(run_folder, "last_sam", "g", some[0]), expected)


def drawn(problem: Problem, plan: Plan, share: float) -> list[dict[int, list[int]]]:
    """What FedALA draws in each request with the seed 0: a share of the client's examples."""
    found: list[dict[int, list[int]]] = []
    for t, cohort in enumerate(plan.cohorts):
        found.append({})
        for k in cohort:
            order = torch.randperm(
                problem.sizes[k], generator=torch_generator(0, "piece/ala", t, k)
            )
            found[t][k] = order[: max(1, int(share * problem.sizes[k]))].tolist()
    return found


@EXECUTORS
@pytest.mark.parametrize(("share", "threshold"), [(0.7, 0.1), (1.0, 1e-6), (0.01, 100.0)])
def test_fedala(some: Some, share: float, threshold: float, executor: Executor) -> None:
    """The last two tensors are blended; with a tight threshold the passes of a second request go on
    longer."""
    problem, plan = some
    settings = {"eta_m": 0.4, "threshold": threshold, "high": [5, 6, 7], "batch": 2}
    trace = fedala.run(problem, plan, drawn=drawn(problem, plan, share), **settings)
    text = f"fedala(share={share}, layers=2, eta=0.4, threshold={threshold}) + all_clients()"
    run_folder = agree(text, trace, some, layers=LAYERS, executor=executor, batch_size=2)
    local_models(run_folder, trace, plan)
    for t, cohort in enumerate(plan.cohorts):
        for k in cohort:
            if trace.m[t][k] is not None:
                same(run_folder.learnt[t][k]["ala"]["m"], trace.m[t][k])
    passes = [count for given in trace.passes for count in given.values()]
    assert set(passes) >= {0, 1}
    assert max(passes) == 11 if threshold == 100.0 else max(passes) >= 11
    assert any(np.any((m > 0) & (m < 1)) for m in trace.m[-1] if m is not None)
