"""The twins give the numbers of the toy problem Q."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from literal import ema, more_numbers, numbers, swa, wima
from literal.problem import Plan, local_step, random_plan, random_problem, toy_q


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=0, atol=numbers.ATOL)


def test_the_toy_problem_is_the_one_described() -> None:
    problem, _ = toy_q()
    w, q = problem.w0, numbers.Q
    for k in range(2):
        close(problem.full_gradient(k, w), q["gradients"][k])
    close((problem.loss(0, w) + problem.loss(1, w)) / 2, q["loss"])
    close((problem.full_gradient(0, w) + problem.full_gradient(1, w)) / 2, q["gradient"])
    close((problem.H[0][0] + problem.H[1][0]) / 2, np.diag(q["hessian"]))
    best = np.array(q["argmin"])
    close((problem.full_gradient(0, best) + problem.full_gradient(1, best)) / 2, (0, 0))
    close((problem.loss(0, best) + problem.loss(1, best)) / 2, q["minimum"])


ALL = {**numbers.CASES, **more_numbers.CASES}


@pytest.mark.parametrize("name", ALL)
def test_numbers_on_the_toy_problem(name: str) -> None:
    case = ALL[name]
    problem, plan = toy_q(case.participation, case.sizes, case.rounds)
    trace = importlib.import_module(f"literal.{case.twin}").run(
        problem, replace(plan, **case.plan), **case.settings
    )
    close(trace.server, case.server)
    for path, expected in case.state.items():
        value = getattr(trace, path[0])
        for step in path[1:]:
            value = value[step]
        close(value, expected)


def test_swa_rates() -> None:
    start, expected = 3, numbers.SWA_RATES["rates"]
    rates = swa.rates([0.5] * (start + 5), start=start, **numbers.SWA_RATES["settings"])
    close(rates, [0.5] * start + list(expected))
    close(swa.rates([0.5] * 3, start=1, cycle=1, gamma_1=0.1, gamma_2=0.01), [0.5, 0.1, 0.1])


def test_swa_captures() -> None:
    before = [np.array([99.0])] * 4
    models = before + [np.array([w]) for w in numbers.SWA["models"]]
    trace = swa.run(
        models, initial=before[0], start=numbers.SWA["start"], cycle=numbers.SWA["cycle"]
    )
    assert trace.captured == list(numbers.SWA["captured"])
    assert trace.average[:4] == [None] * 4
    close(trace.average[4], [99.0])
    for t, expected in zip(trace.captured, numbers.SWA["average"], strict=True):
        close(trace.average[t], [expected])


def test_wima() -> None:
    models = [np.array([w, w]) for w in numbers.SERIES]
    average = wima.run(models, window=numbers.WIMA["window"], where=np.array([True, False])).average
    close(average, list(zip(numbers.WIMA["average"], numbers.SERIES, strict=True)))


def test_ema() -> None:
    close(ema.run(numbers.SERIES, gamma=numbers.EMA["gamma"]).average, numbers.EMA["average"])


def test_local_step_clips_then_decays_then_gathers_momentum() -> None:
    plan = Plan(cohorts=[], orders=[], lr=[], wd=0.5, momentum=0.9, clip=1.0)
    w, m = np.array([2.0, 0.0]), np.array([1.0, 1.0])
    w_new, m_new = local_step(w, m, np.array([3.0, 4.0]), 0.1, plan)
    np.testing.assert_allclose(m_new, [0.9 + 0.6 + 1.0, 0.9 + 0.8])
    np.testing.assert_allclose(w_new, [2.0 - 0.25, -0.17])


def test_random_plans_keep_the_short_batch_and_visit_every_example_once_an_epoch() -> None:
    problem = random_problem(0, clients=4, sizes=(3, 7, 5, 2))
    plan = random_plan(0, problem, rounds=5, cohort=(1, 3), batch=3, epochs=2)
    assert {len(cohort) for cohort in plan.cohorts} > {1}
    for t in range(plan.rounds):
        assert sorted(plan.orders[t]) == sorted(set(plan.cohorts[t]))
        for k in plan.cohorts[t]:
            n = problem.sizes[k]
            assert plan.steps(t, k) == 2 * -(-n // 3)
            assert sorted(i for batch in plan.orders[t][k] for i in batch) == sorted(
                2 * list(range(n))
            )
