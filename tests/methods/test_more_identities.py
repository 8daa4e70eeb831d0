"""Limits in which drift correction, client momentum and the later sharpness methods are another
method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedflat.experiments.train import train
from literal.problem import Plan, Problem, random_plan, random_problem
from methods.observers import client_models, method_of
from methods.test_identities import HARD, ROUNDS, bits, differ, images
from quadratic import Recorder, replay

STILL = {**HARD, "momentum": 0.0}
"""Control variates refuse momentum."""
Some = tuple[Problem, Plan]


@pytest.fixture(scope="module", params=["plain", "decay, momentum, clip"])
def some(request: pytest.FixtureRequest) -> Some:
    """Unequal sizes, cohorts of one to three of five."""
    problem = random_problem(31)
    return problem, random_plan(
        31, problem, ROUNDS, cohort=(1, 3), **({} if request.param == "plain" else HARD)
    )


@pytest.fixture(scope="module")
def still() -> Some:
    problem = random_problem(32)
    return problem, random_plan(32, problem, ROUNDS, cohort=(1, 3), **STILL)


@pytest.fixture(scope="module")
def full() -> Some:
    """All clients in every round."""
    problem = random_problem(33)
    return problem, random_plan(33, problem, ROUNDS, cohort=5, **STILL)


def near(one: Recorder, other: Recorder) -> None:
    assert len(one.server) == ROUNDS
    np.testing.assert_allclose(one.server, other.server, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "text", ["fedcm(a=1)", "fedacg(lam=0, beta=0)", "fedlesam(rho=0)", "mofedsam(rho=0, a=1)"]
)
def test_nothing_is_left_but_uniform_fedavg(text: str, some: Some) -> None:
    base = replay(method_of("fedavg()"), *some, weighting="uniform")
    bits(replay(method_of(text), *some), base)
    differ(base, replay(method_of("fedavg()"), *some))


def test_adabest_without_its_factors_is_uniform_fedavg(some: Some) -> None:
    base = replay(method_of("fedavg()"), *some, weighting="uniform")
    near(replay(method_of("adabest(beta=0, mu=0)"), *some), base)
    for text in ("adabest(beta=0.5, mu=0)", "adabest(beta=0, mu=0.5)"):
        differ(replay(method_of(text), *some), base)


def test_mimelite_without_momentum_is_fedavg(some: Some) -> None:
    bits(replay(method_of("mimelite(b=0)"), *some), replay(method_of("fedavg()"), *some))


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("scaffold()", "fedavg()"),
        ("feddc(alpha=0.2)", "feddyn(alpha=0.2)"),
        ("fedgamma(rho=0.2)", "fedsam(rho=0.2)"),
        ("fedlesam(rho=0.5) + feddyn(alpha=0.2)", "feddyn(alpha=0.2)"),
        ("fedfsa(rho=0.1, rho_larger=0.9, top=1)", "mofedsam(rho=0.1)"),
    ],
)
def test_the_first_round(text: str, limit: str, still: Some) -> None:
    """Before anything is known of the clients; later the two part."""
    layers = {"first": 2, "second": 2}
    one, other = (
        replay(method_of(t), *still, weighting="uniform", layers=layers) for t in (text, limit)
    )
    np.testing.assert_allclose(
        one.server[0], other.server[0], rtol=0, atol=0 if "fsa" not in text else 1e-14
    )
    differ(one, other)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("mofedsam(rho=0, a=0.3)", "fedcm(a=0.3)"),
        ("fedgamma(rho=0)", "scaffold()"),
        ("fedsmoo(rho=0, beta=10)", "feddyn(alpha=0.1)"),
        ("fedspeed(rho=0.2, lam=10, server='feddyn')", "feddyn(alpha=0.1) + sam(rho=0.2)"),
        ("fedlesam(rho=0) + scaffold()", "scaffold()"),
        ("layerwise_sam(rho=0.2)", "sam(rho=0.2)"),
        ("fsa(rho=0, rho_larger=0, top=1)", "fedavg()"),
    ],
)
def test_limits(text: str, limit: str, still: Some) -> None:
    """``layerwise_sam`` has one tensor here."""
    layers = {"first": 2, "second": 2} if "fsa" in text else None
    bits(
        replay(method_of(text), *still, layers=layers),
        replay(method_of(limit), *still, layers=layers),
    )


@pytest.mark.parametrize("selection", ["fsa", "reverse", "random"])
def test_fedfsa_with_one_radius_is_mofedsam(selection: str, some: Some) -> None:
    layers = {"first": 2, "second": 2}
    one = replay(
        method_of(f"fedfsa(0.2, 0.2, top=1, a=0.3, selection='{selection}')"), *some, layers=layers
    )
    base = replay(method_of("mofedsam(0.2, a=0.3)"), *some, layers=layers)
    near(one, base)
    assert all("fsa" in state for state in one.learnt[-1].values())


def test_the_first_requests_of_fedfsa_are_those_of_mofedsam(some: Some) -> None:
    """Up to the first round in which somebody comes back, the two runs are the same."""
    cohorts = some[1].cohorts
    again = next(
        t for t, cohort in enumerate(cohorts) if set(cohort) & {k for c in cohorts[:t] for k in c}
    )
    layers = {"first": 2, "second": 2}
    one = replay(method_of("fedfsa(0.1, 0.9, top=1)"), *some, layers=layers).server
    base = replay(method_of("mofedsam(0.1)"), *some, layers=layers).server
    np.testing.assert_allclose(one[:again], base[:again], rtol=0, atol=1e-13)
    assert np.abs(one[again] - base[again]).max() > 1e-6


def test_fedspeed_when_all_take_part_is_feddyn_with_sam(full: Some) -> None:
    near(
        replay(method_of("fedspeed(rho=0.2, a=1, lam=10)"), *full),
        replay(method_of("feddyn(0.1) + sam(0.2)"), *full),
    )


def test_fedspeed_when_few_take_part_is_not(still: Some) -> None:
    differ(
        replay(method_of("fedspeed(rho=0.2, a=1, lam=10)"), *still),
        replay(method_of("feddyn(0.1) + sam(0.2)"), *still),
    )


def test_mime_with_one_step_is_gradient_descent(some: Some) -> None:
    """One local step, on any batch: the batch cancels, the cohort's full gradient is left."""
    problem, plan = some
    one = replace(
        plan, orders=[{k: order[k][:1] for k in order} for order in plan.orders], clip=None
    )
    w = problem.w0
    for t, found in enumerate(replay(method_of("mime(b=0)"), problem, one).server):
        total = sum(problem.sizes[k] for k in one.cohorts[t])
        g = sum(problem.sizes[k] / total * problem.full_gradient(k, w) for k in one.cohorts[t])
        w = w - one.lr[t] * (g + one.wd * w)
        np.testing.assert_allclose(found, w, rtol=1e-12, atol=1e-12)


def test_fedgloss_is_fedlesam_when_all_take_part() -> None:
    problem = random_problem(34, sizes=(6, 6, 6, 6, 6))
    plan = random_plan(34, problem, ROUNDS, cohort=5, batch=4)
    near(
        replay(method_of("fedgloss(0.3, admm=False)"), problem, plan),
        replay(method_of("fedlesam(0.3)"), problem, plan),
    )
    few = random_plan(34, problem, ROUNDS, cohort=2, batch=4)
    differ(
        replay(method_of("fedgloss(0.3, admm=False)"), problem, few),
        replay(method_of("fedlesam(0.3)"), problem, few),
    )


def test_the_mean_of_the_variates_is_the_servers(still: Some) -> None:
    for text in ("scaffold()", "fedgamma(0.1)", "feddc(0.2)", "fedlesam(0.1) + scaffold()"):
        run_folder = replay(method_of(text), *still)
        kept = [state["scaffold"]["c"] for state in run_folder.learnt[-1].values()]
        mean = torch.stack(kept).sum(0) / still[0].clients
        torch.testing.assert_close(
            run_folder.runs[-1].states["scaffold"]["c"], mean, rtol=0, atol=1e-12
        )


def test_the_prox_of_fedacg_is_measured_from_what_was_sent(some: Some) -> None:
    """In round 0 nothing is ahead: FedProx."""
    ahead = client_models(replay(method_of("fedacg(0.8, beta=0.3) + all_clients()"), *some), 0)
    prox = client_models(replay(method_of("fedprox(0.3) + all_clients()"), *some), 0)
    assert ahead.keys() == set(some[1].cohorts[0])
    assert all(np.array_equal(model, prox[client]) for client, model in ahead.items())


BASES = [
    "fedavg()",
    "fedavgm()",
    "fedsam(0.1)",
    "fedasam(0.1)",
    "fedprox(0.1)",
    "feddyn(0.1)",
    "scaffold()",
    "adabest()",
    "feddc(0.1)",
    "fedcm()",
    "mime()",
    "mimelite()",
    "fedacg()",
    "mofedsam()",
    "fedspeed()",
    "fedgamma()",
    "fedlesam()",
    "fedsmoo()",
    "fedgloss(0.1)",
    "naive_fedgloss(0.1)",
    "fedfsa(top=1)",
]


@pytest.mark.parametrize("text", BASES)
def test_man_of_weight_0_changes_no_bit(text: str) -> None:
    base, without, active = (
        train(images(method_of(text + more))).model
        for more in ("", " + man(zeta=0)", " + man(zeta=0.5)")
    )
    assert base is not None
    assert without is not None
    assert active is not None
    assert torch.equal(base.params, without.params)
    assert not torch.equal(base.params, active.params)


@pytest.mark.parametrize(
    "text", [text for text in BASES if text not in ("fedasam(0.1)", "fedfsa(top=1)")]
)
def test_the_order_of_the_clients_does_not_matter(text: str, still: Some) -> None:
    problem, plan = still
    turned = replace(plan, cohorts=[cohort[::-1] for cohort in plan.cohorts])
    near(replay(method_of(text), problem, plan), replay(method_of(text), problem, turned))
