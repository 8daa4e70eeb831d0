"""Limits in which one method is another, on random quadratics with few clients a round and short
batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from literal import (
    adabest,
    ema,
    fedacg,
    fedasam,
    fedavg,
    fedcm,
    feddc,
    feddyn,
    fedfsa,
    fedgamma,
    fedgloss,
    fedlesam,
    fedopt,
    fedprox,
    fedsam,
    fedsmoo,
    fedspeed,
    mime,
    mofedsam,
    naive_fedgloss,
    scaffold,
    swa,
    wima,
)
from literal.problem import Plan, Problem, random_plan, random_problem

EQUAL = (6, 6, 6, 6, 6)


def same(one: Any, other: Any) -> None:
    np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-11, atol=1e-11)


def differ(one: Any, other: Any) -> None:
    assert np.max(np.abs(np.asarray(one) - np.asarray(other))) > 1e-4


@pytest.fixture(params=["plain", "decay, momentum, clip"])
def some(request: pytest.FixtureRequest) -> tuple[Problem, Plan]:
    """Unequal sizes, cohorts of one to three of five."""
    problem = random_problem(3)
    extra = {} if request.param == "plain" else {"wd": 0.01, "momentum": 0.5, "clip": 2.0}
    return problem, random_plan(4, problem, cohort=(1, 3), **extra)


@pytest.fixture
def equal() -> tuple[Problem, Plan]:
    """Equal sizes, cohorts of two of five."""
    problem = random_problem(5, sizes=EQUAL)
    return problem, random_plan(6, problem, batch=4)


@pytest.fixture
def full() -> tuple[Problem, Plan]:
    """Equal sizes, all clients in every round."""
    problem = random_problem(7, sizes=EQUAL)
    return problem, random_plan(8, problem, cohort=5, batch=4)


def test_sized_limits_of_fedavg(some: tuple[Problem, Plan]) -> None:
    base = fedavg.run(*some).server
    same(fedprox.run(*some, mu_p=0).server, base)
    same(fedopt.run(*some, optimiser="avgm", beta_m=0).server, base)
    same(fedsam.run(*some, rho=0).server, base)
    same(fedasam.run(*some, rho=0, eta_a=0.2).server, base)
    same(fedgloss.run(*some, rho_s=0).server, base)
    same(naive_fedgloss.run(*some, rho_s=0).server, base)
    same(mime.run(*some, lite=True).server, base)


def test_uniform_limits_of_fedavg(some: tuple[Problem, Plan]) -> None:
    base = fedavg.run(*some, weighting="uniform").server
    differ(base, fedavg.run(*some).server)
    same(fedcm.run(*some, a=1).server, base)
    same(fedacg.run(*some, lam=0, beta_p=0).server, base)
    same(adabest.run(*some, mu_a=0, beta_a=0).server, base)
    same(fedlesam.run(*some, rho=0).server, base)
    same(scaffold.run(*some).server[0], base[0])


def test_server_rate_scales_the_step() -> None:
    problem = random_problem(1)
    plan = random_plan(1, problem, rounds=1)
    whole = fedavg.run(problem, plan).server[0]
    half = fedavg.run(problem, replace(plan, server_lr=0.5)).server[0]
    same(half, (problem.w0 + whole) / 2)


def test_fedavgm_is_torch_sgd(some: tuple[Problem, Plan]) -> None:
    paper = fedopt.run(*some, optimiser="avgm")
    same(paper.server, fedopt.run(*some, optimiser="avgm", flavour="torch").server)


def test_momentum_family(some: tuple[Problem, Plan]) -> None:
    problem, plan = some
    same(mofedsam.run(*some, a=0.1, rho=0).server, fedcm.run(*some, a=0.1).server)
    base = mofedsam.run(*some, a=0.1, rho=0.2)
    layers = {"layers": [[0, 1], [2], [3]], "eligible": [0, 2], "C": 1}
    same(fedfsa.run(*some, rho_default=0.2, rho_larger=0.2, **layers).server, base.server)
    first = fedfsa.run(*some, rho_default=0.2, rho_larger=0.9, **layers)
    same(first.server[0], base.server[0])
    assert problem.clients == len(first.top[0])
    assert all(top == [] for k, top in enumerate(first.top[0]) if k not in plan.cohorts[0])
    assert all(top in ([0], [2]) for k, top in enumerate(first.top[0]) if k in plan.cohorts[0])
    drawn = [{k: first.top[t][k] for k in plan.cohorts[t]} for t in range(plan.rounds)]
    again = fedfsa.run(
        *some, rho_default=0.2, rho_larger=0.9, selection="random", drawn=drawn, **layers
    )
    same(again.server, first.server)


def test_control_variates(some: tuple[Problem, Plan]) -> None:
    base = scaffold.run(*some)
    same(fedgamma.run(*some, rho=0).server, base.server)
    same(fedlesam.run(*some, rho=0, variant="scaffold").server, base.server)
    same(base.c[-1], np.mean(base.c_k[-1], axis=0))


def test_duals(some: tuple[Problem, Plan]) -> None:
    base, climbing = feddyn.run(*some, alpha=0.1), feddyn.run(*some, alpha=0.1, rho_l=0.2)
    same(base.sigma[-1], np.mean(base.sigma_k[-1], axis=0))
    differ(base.server, climbing.server)
    same(fedsmoo.run(*some, rho=0, beta=10).server, base.server)
    same(fedlesam.run(*some, rho=0, variant="feddyn", alpha=0.1).server, base.server)
    same(fedspeed.run(*some, rho=0.2, a_s=1, lam=10, server="feddyn").server, climbing.server)
    same(feddc.run(*some, alpha=0.1).server[0], base.server[0])
    prox = fedprox.run(*some, mu_p=0.1)
    for k in base.local[0]:
        same(base.local[0][k], prox.local[0][k])


def test_duals_when_all_take_part(full: tuple[Problem, Plan]) -> None:
    climbing = feddyn.run(*full, alpha=0.1, rho_l=0.2)
    same(fedspeed.run(*full, rho=0.2, a_s=1, lam=10).server, climbing.server)
    same(climbing.all, climbing.active)


def test_scaled_duals(equal: tuple[Problem, Plan], some: tuple[Problem, Plan]) -> None:
    same(feddyn.run(*equal, alpha=0.1, scaled=True).server, feddyn.run(*equal, alpha=0.1).server)
    differ(feddyn.run(*some, alpha=0.1, scaled=True).server, feddyn.run(*some, alpha=0.1).server)


def test_fedgloss_without_a_server_radius(equal: tuple[Problem, Plan]) -> None:
    climb = {"local": "sam", "rho_l": 0.2}
    for twin in (fedgloss, naive_fedgloss):
        same(twin.run(*equal, rho_s=0, **climb).server, fedsam.run(*equal, rho=0.2).server)
        same(twin.run(*equal, rho_s=0, beta=10).server, feddyn.run(*equal, alpha=0.1).server)
        climbing = feddyn.run(*equal, alpha=0.1, rho_l=0.2).server
        same(twin.run(*equal, rho_s=0, beta=10, **climb).server, climbing)
        adapt = {"rho": 0.2, "eta_a": 0.1, "is_weight": np.array([True, True, False, True])}
        asam = {"rho_l": 0.2, "eta_a": 0.1, "is_weight": adapt["is_weight"]}
        same(
            twin.run(*equal, rho_s=0, local="asam", **asam).server,
            fedasam.run(*equal, **adapt).server,
        )


def test_fedgloss_is_fedlesam_when_all_take_part(full: tuple[Problem, Plan]) -> None:
    same(fedgloss.run(*full, rho_s=0.3).server, fedlesam.run(*full, rho=0.3).server)


def test_fedgloss_scales_its_dual(full: tuple[Problem, Plan]) -> None:
    settings = {"rho_s": 0.1, "beta": 10}
    paper, repo = (
        fedgloss.run(*full, **settings),
        fedgloss.run(*full, **settings, dual_scale="repo"),
    )
    same(repo.sigma[0], paper.sigma[0] / 5)
    problem = full[0]
    alone = random_plan(9, problem, cohort=1)
    same(
        fedgloss.run(problem, alone, **settings).server,
        fedgloss.run(problem, alone, **settings, dual_scale="repo").server,
    )


def test_fedgloss_radii(equal: tuple[Problem, Plan]) -> None:
    settings = {"rho_s": 0.2, "local": "sam", "rho_l": 0.1, "rho_0": 0.02, "T_s": 4}
    trace = fedgloss.run(*equal, **settings)
    same(trace.rho_l, [0.02, 0.04, 0.06, 0.08, 0.1, 0.1])
    same(trace.rho_s, [0.2] * 6)
    repo = fedgloss.run(*equal, **settings, server_rho="repo")
    same(repo.rho_s, [0.2, 0.145, 0.145, 0.145, 0.145, 0.2])
    same(repo.rho_l, trace.rho_l)
    same(np.linalg.norm(repo.eps, axis=1), [0, 0.145, 0.145, 0.145, 0.145, 0.2])


def test_fedgloss_knows_how_far_its_perturbation_is_off(some: tuple[Problem, Plan]) -> None:
    trace = fedgloss.run(*some, rho_s=0.3)
    assert trace.delta_eps[0] is None
    for t in range(1, 6):
        assert 0 < trace.delta_eps[t] < 0.6
    problem, plan = some
    start = Problem(problem.H, problem.a, trace.server[1])
    rest = replace(plan, cohorts=plan.cohorts[2:], orders=plan.orders[2:], lr=plan.lr[2:])
    true = naive_fedgloss.run(start, rest, rho_s=0.3).eps[0]
    cosine = trace.eps[2] @ true / 0.09
    same(trace.delta_eps[2], 0.3 * np.sqrt(2 - 2 * cosine))


def test_asam_without_weights_is_sam(some: tuple[Problem, Plan]) -> None:
    sam = fedsam.run(*some, rho=0.3).server
    same(fedasam.run(*some, rho=0.3, eta_a=0.2, is_weight=np.zeros(4, dtype=bool)).server, sam)
    plain = fedasam.run(*some, rho=0.3, eta_a=0).server
    same(fedasam.run(*some, rho=0.3, eta_a=0.2, variant="elementwise").server, plain)


def test_mime_with_one_step_is_gradient_descent() -> None:
    problem = random_problem(2)
    plan = random_plan(2, problem, epochs=1)
    one = replace(plan, orders=[{k: order[k][:1] for k in order} for order in plan.orders])
    trace = mime.run(problem, one)
    w = problem.w0
    for t in range(one.rounds):
        cohort = one.cohorts[t]
        total = sum(problem.sizes[k] for k in cohort)
        w = w - one.lr[t] * sum(
            problem.sizes[k] / total * problem.full_gradient(k, w) for k in cohort
        )
        same(trace.server[t], w)


def test_averages() -> None:
    models = list(np.random.default_rng(0).normal(size=(8, 3)))
    same(wima.run(models, window=1).average, models)
    same(ema.run(models, gamma=0).average, models)
    same(swa.run(models, initial=models[0], start=7, cycle=1).average[7], models[7])
    same(
        swa.run(models, initial=models[0], start=2, cycle=3).average[7], (models[4] + models[7]) / 2
    )
    # The window's mean is its first model minus the later moves, each counted by how long it has
    # been inside.
    W, first = 4, 3
    moves = [models[j] - models[j + 1] for j in range(first, first + W - 1)]
    inside = sum((W - 1 - j) / W * move for j, move in enumerate(moves))
    same(wima.run(models, window=W).average[first + W - 1], models[first] - inside)


EVERY = {
    "adabest": lambda q, p: adabest.run(q, p, mu_a=0.02, beta_a=0.9),
    "fedacg": lambda q, p: fedacg.run(q, p, lam=0.85, beta_p=0.1),
    "fedasam": lambda q, p: fedasam.run(q, p, rho=0.1, eta_a=0.2),
    "fedavg": lambda q, p: fedavg.run(q, p),
    "fedcm": lambda q, p: fedcm.run(q, p, a=0.1),
    "feddc": lambda q, p: feddc.run(q, p, alpha=0.1),
    "feddyn": lambda q, p: feddyn.run(q, p, alpha=0.1, rho_l=0.1),
    "fedfsa": lambda q, p: fedfsa.run(q, p, rho_default=0.1, rho_larger=0.5, C=2, score="mse"),
    "fedgamma": lambda q, p: fedgamma.run(q, p, rho=0.1),
    "fedgloss": lambda q, p: fedgloss.run(q, p, rho_s=0.1, beta=10, local="sam", rho_l=0.1),
    "fedlesam": lambda q, p: fedlesam.run(q, p, rho=0.1),
    "fedopt": lambda q, p: fedopt.run(q, p, optimiser="yogi"),
    "fedprox": lambda q, p: fedprox.run(q, p, mu_p=0.1),
    "fedsam": lambda q, p: fedsam.run(q, p, rho=0.1),
    "fedsmoo": lambda q, p: fedsmoo.run(q, p, rho=0.1, beta=10, s_from="mu_minus_eps"),
    "fedspeed": lambda q, p: fedspeed.run(q, p, rho=0.1, lam=10, a_s=0.95),
    "mime": lambda q, p: mime.run(q, p, b=0.5),
    "mofedsam": lambda q, p: mofedsam.run(q, p, a=0.1, rho=0.1),
    "naive_fedgloss": lambda q, p: naive_fedgloss.run(q, p, rho_s=0.1, beta=10),
    "scaffold": lambda q, p: scaffold.run(q, p),
}


@pytest.mark.parametrize("name", EVERY)
def test_the_order_of_the_clients_does_not_matter(name: str, some: tuple[Problem, Plan]) -> None:
    problem, plan = some
    turned = replace(plan, cohorts=[cohort[::-1] for cohort in plan.cohorts])
    one, other = EVERY[name](problem, plan).server, EVERY[name](problem, turned).server
    assert np.isfinite(one).all()
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
