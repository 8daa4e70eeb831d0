"""The learning rate that decreases within local training: published numbers, and plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from client.stages import visiting
from fedflat.client.gradient_transforms import PolyRate
from fedflat.errors import SettingError
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.experiments.prepare import prepare
from literal.problem import Plan, Problem, local_step, random_plan, random_problem, weights
from methods.observers import method_of
from quadratic import experiment, replay

HARD = {"wd": 0.02, "momentum": 0.6, "clip": 1.5, "lr": 0.04}


@pytest.fixture(scope="module")
def some() -> tuple[Problem, Plan]:
    problem = random_problem(11)
    return problem, random_plan(11, problem, 4, cohort=(1, 3), **HARD)


@pytest.mark.parametrize(("factor", "last"), [(10_000, 0.04999595), (1, 0.00629463)])
def test_both_readings_in_numbers(factor: float, last: float) -> None:
    """Ten steps at 0.05: as FedDrive's code has it, and as papers print it."""
    piece = PolyRate(factor=factor)
    request = visiting(piece, torch.zeros(2), planned_steps=10)
    assert piece.lr_factor(request) == 1
    request.steps = 9
    assert 0.05 * piece.lr_factor(request) == pytest.approx(last, abs=6e-9)


def by_loops(problem: Problem, plan: Plan, power: float, factor: float) -> list[np.ndarray]:
    """FedAvg; step i of the tau of a request has its own rate, momentum or not."""
    server, seen = problem.w0, []
    for t, cohort in enumerate(plan.cohorts):
        mean, share = np.zeros(problem.dim), weights(problem, cohort, "sized")
        for k in cohort:
            w, m, tau = server, np.zeros(problem.dim), plan.steps(t, k)
            for i, batch in enumerate(plan.orders[t][k]):
                rate = plan.lr[t] * (1 - i / (factor * tau)) ** power
                w, m = local_step(w, m, problem.gradient(k, w, batch), rate, plan)
            mean = mean + share[k] * w
        server = mean
        seen.append(server)
    return seen


@pytest.mark.parametrize(
    "executor", [InProcess(threads=1), Stacked()], ids=["one by one", "stacked"]
)
@pytest.mark.parametrize(("power", "factor"), [(0.9, 1.0), (0.9, 10_000.0), (2.0, 3.0)])
def test_against_loops(
    power: float, factor: float, executor: Executor, some: tuple[Problem, Plan]
) -> None:
    run_folder = replay(
        method_of(f"fedavg() + poly_rate({power}, {factor})"), *some, executor=executor
    )
    np.testing.assert_allclose(
        run_folder.server, by_loops(*some, power, factor), rtol=1e-10, atol=1e-10
    )


def test_power_0_changes_no_bit(some: tuple[Problem, Plan]) -> None:
    one, two = (
        replay(method_of(text), *some) for text in ("fedavg() + poly_rate(power=0)", "fedavg()")
    )
    assert all(np.array_equal(a, b) for a, b in zip(one.server, two.server, strict=True))


def test_scaffold_divides_by_the_rates_there_were() -> None:
    """With full batches of one example and no correction yet, the variate is the mean of the
    gradients on the way."""
    problem = random_problem(3, clients=1, sizes=[1])
    plan = random_plan(3, problem, 1, cohort=1, epochs=3, lr=0.1)
    w, sum_of_rates = problem.w0, 0.0
    for i, batch in enumerate(plan.orders[0][0]):
        rate = 0.1 * (1 - i / 3) ** 0.9
        w, sum_of_rates = w - rate * problem.gradient(0, w, batch), sum_of_rates + rate
    run_folder = replay(method_of("scaffold() + poly_rate()"), problem, plan)
    np.testing.assert_allclose(
        run_folder.learnt[0][0]["scaffold"]["c"], (problem.w0 - w) / sum_of_rates, rtol=1e-10
    )


def test_what_cannot_be_is_refused(some: tuple[Problem, Plan]) -> None:
    with pytest.raises(
        SettingError, match=r"fedcm divides clients' updates by .* Leave out poly_rate\(\)"
    ):
        prepare(experiment(method_of("fedcm() + poly_rate()"), *some))
    with pytest.raises(
        SettingError, match=r"poly_rate: factor must be a number of at least 1, found 0\.5"
    ):
        PolyRate(factor=0.5)
    with pytest.raises(
        SettingError, match="poly_rate: power must be a number of at least 0, found -1"
    ):
        PolyRate(power=-1)
