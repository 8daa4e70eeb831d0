"""Limits in which a newer method is another, and what the newer methods refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedflat.errors import SettingError
from fedflat.experiments.prepare import prepare
from literal.problem import Plan, Problem, random_plan, random_problem
from methods.observers import method_of
from methods.test_identities import HARD, ROUNDS, bits, differ
from methods.test_more_identities import STILL, near
from quadratic import experiment, replay

Some = tuple[Problem, Plan]


@pytest.fixture(scope="module")
def some() -> Some:
    """Unequal sizes, cohorts of one to three of five; decay, momentum and clipping."""
    problem = random_problem(61)
    return problem, random_plan(61, problem, ROUNDS, cohort=(1, 3), **HARD)


@pytest.fixture(scope="module")
def still() -> Some:
    problem = random_problem(62)
    return problem, random_plan(62, problem, ROUNDS, cohort=(1, 3), **STILL)


@pytest.fixture(scope="module")
def alone() -> Some:
    """One client in every round."""
    problem = random_problem(63)
    return problem, random_plan(63, problem, ROUNDS, cohort=1, **HARD)


@pytest.fixture(scope="module")
def full() -> Some:
    """All clients in every round."""
    problem = random_problem(64)
    return problem, random_plan(64, problem, ROUNDS, cohort=5, **STILL)


@pytest.mark.parametrize(
    "text",
    ["fedinit(beta=0)", "fedinit(beta=0, origin='start')", "fedswa(rho=1, alpha=1)"],
)
def test_nothing_is_left_but_uniform_fedavg(text: str, some: Some) -> None:
    bits(replay(method_of(text), *some), replay(method_of("fedavg()"), *some, weighting="uniform"))


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("fednsam(lam=0.7, rho=0)", "fedacg(lam=0.7, beta=0)"),
        ("fednsam(lam=0.7, rho=0, ascent='momentum')", "fedacg(lam=0.7, beta=0)"),
        ("fednsam(lam=0.7, rho=0.2)", "fedacg(lam=0.7, beta=0) + sam(rho=0.2)"),
        ("fednsam(lam=0, rho=0.2)", "fedsam(rho=0.2)"),
        ("fedlesam_d(rho=0.2, alpha=0.3)", "fedlesam(rho=0.2) + feddyn(alpha=0.3)"),
        ("fedlesam(rho=0, flavour='repo')", "fedavg()"),
        ("fedinit(beta=0) + feddyn(alpha=0.2)", "feddyn(alpha=0.2)"),
    ],
)
def test_limits(text: str, limit: str, some: Some) -> None:
    near(
        replay(method_of(text), *some, weighting="uniform"),
        replay(method_of(limit), *some, weighting="uniform"),
    )


def test_the_variants_of_fedlesam_are_sums(still: Some) -> None:
    bits(
        replay(method_of("fedlesam_s(rho=0.2)"), *still),
        replay(method_of("fedlesam(rho=0.2) + scaffold()"), *still),
    )


@pytest.mark.parametrize("text", ["fedexp()", "fednova()"])
def test_one_client_a_round_is_fedavg(text: str, alone: Some) -> None:
    near(replay(method_of(text), *alone), replay(method_of("fedavg()"), *alone))


def test_equal_replies_leave_the_step_of_fedexp_at_1() -> None:
    problem = random_problem(65, sizes=(4,))
    plan = random_plan(65, problem, ROUNDS, cohort=1)
    twice = replace(problem, H=problem.H * 2, a=problem.a * 2)
    doubled = replace(
        plan, cohorts=[[0, 1]] * ROUNDS, orders=[{0: o[0], 1: o[0]} for o in plan.orders]
    )
    near(
        replay(method_of("fedexp()"), twice, doubled), replay(method_of("fedavg()"), problem, plan)
    )


def test_fedmoswa_when_all_take_part_is_scaffold(full: Some, still: Some) -> None:
    text = "fedmoswa(rho=1, alpha=1, gamma=1)"
    near(replay(method_of(text), *full), replay(method_of("scaffold()"), *full))
    differ(replay(method_of(text), *still), replay(method_of("scaffold()"), *still))


def test_the_origin_of_fedinit_does_not_matter_when_all_take_part(full: Some, still: Some) -> None:
    texts = [f"fedinit(beta=0.2, origin='{origin}')" for origin in ("sent", "start")]
    near(*(replay(method_of(text), *full) for text in texts))
    differ(*(replay(method_of(text), *still) for text in texts))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fednova() + feddyn()", "both decide where the server steps to"),
        ("fednova() + fedacg()", "both decide where the server steps to"),
        ("fednsam() + sam()", "two client pieces store their state under the name 'sam'"),
        ("fednsam() + fedacg(beta=0)", "two server pieces store their state"),
        ("fedmoswa() + scaffold()", "store their state under the name 'scaffold'"),
        ("fedswa() + server_sgd(lr=0.5)", "store their state under the name 'server_sgd'"),
        ("fedexp() + fedacg()", "there is nothing for fedexp"),
        ("fedinit() + mime()", "needs uniform weighting of clients"),
        ("fedlesam() + asam()", "both choose where a client's gradient is taken"),
    ],
)
def test_what_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SettingError, match=reason):
        method_of(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fednova() + local_adam()", "which local Adam changes in every step"),
        ("fedmoswa() + local_adam()", "fedmoswa divides a client's update"),
    ],
)
def test_what_is_refused_with_local_adam(text: str, reason: str, still: Some) -> None:
    with pytest.raises(SettingError, match=reason):
        prepare(experiment(method_of(text), *still))


def test_fedmoswa_refuses_momentum(some: Some) -> None:
    moving = (some[0], replace(some[1], momentum=0.5))
    with pytest.raises(SettingError, match="wrong with local momentum"):
        prepare(experiment(method_of("fedmoswa()"), *moving))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fedswa(rho=1.5)", "rho must be a number of at least 0 and at most 1"),
        ("fedexp(eps=-1)", "eps must be a number of at least 0"),
        ("fedexp(flavour='code')", "flavour must be"),
        ("fedinit(origin='here')", "origin must be"),
        ("fednova(tau_eff='mean')", "tau_eff must be"),
        ("fednsam(ascent='global')", "ascent must be"),
        ("fedlesam(flavour='x')", "flavour must be"),
    ],
)
def test_wrong_arguments(text: str, reason: str) -> None:
    with pytest.raises(SettingError, match=reason):
        method_of(text)


def one_step(some: Some) -> Some:
    problem, plan = some
    orders = [{k: batches[:1] for k, batches in order.items()} for order in plan.orders]
    return problem, replace(plan, orders=orders)


def test_fedtoga_without_its_directions_is_feddyn_with_sam(some: Some) -> None:
    bits(
        replay(method_of("fedtoga(rho=0.2, alpha=0.1, beta=0, kappa=0, past=0)"), *some),
        replay(method_of("feddyn(alpha=0.1) + sam(rho=0.2)"), *some),
    )


def test_fedsol_without_a_radius_or_with_one_step_is_fedavg(some: Some) -> None:
    plain = method_of("fedavg()")
    bits(replay(method_of("fedsol(rho=0, proximal='l2')"), *some), replay(plain, *some))
    text = "fedsol(rho=0.5, form='fixed', proximal='l2')"
    bits(replay(method_of(text), *one_step(some)), replay(plain, *one_step(some)))


@pytest.mark.parametrize("state", ["reset", "client", "server"])
def test_local_adamw_without_decay_is_local_adam(still: Some, state: str) -> None:
    adamw = method_of(f"local_adamw(weight_decay=0, state='{state}')")
    bits(replay(adamw, *still), replay(method_of(f"local_adam(state='{state}')"), *still))


def test_the_penalty_of_feddyn_does_not_act_in_a_first_step(some: Some) -> None:
    one = one_step(some)
    text = "feddyn(alpha=0.3, penalty='{}')"
    squared, distance = (method_of(text.format(name)) for name in ("squared", "distance"))
    bits(replay(distance, *one), replay(squared, *one))
    differ(replay(distance, *some), replay(squared, *some))


def test_fedwmsam_of_one_client_without_a_radius_is_fedcm() -> None:
    """The client's control variate is the mean; then the same with one step and any radius."""
    problem = random_problem(66, sizes=(7,))
    plan = random_plan(66, problem, ROUNDS, cohort=1, **STILL)
    cm = method_of("fedcm(a=0.3)")
    text = "fedwmsam(rho={}, a=0.3, lam=0)"
    near(replay(method_of(text.format(0)), problem, plan), replay(cm, problem, plan))
    differ(replay(method_of(text.format(0.5)), problem, plan), replay(cm, problem, plan))
    one = one_step((problem, plan))
    near(replay(method_of(text.format(0.5)), *one), replay(cm, *one))


def test_fedwmsam_corrects_fedcm(still: Some) -> None:
    text = "fedwmsam(rho=0, a=0.3, lam=0)"
    differ(replay(method_of(text), *still), replay(method_of("fedcm(a=0.3)"), *still))


def test_the_duals_of_fedgmt_when_all_take_part(full: Some) -> None:
    """The mean over all clients is that over the active ones, if all weigh the same."""
    texts = [f"fedgmt(gamma=0, beta=5, dual='{dual}')" for dual in ("all", "active")]
    near(*(replay(method_of(text), *full, weighting="uniform") for text in texts))
    differ(*(replay(method_of(text), *full) for text in texts))


def test_the_first_round_of_fedgmt_doubles_fedavgs_step(full: Some) -> None:
    """``w_1 = mean(w_k) + mean(w_k - w_0)``, as every dual is a client's first change."""
    w_0, plain = full[0].w0, replay(method_of("fedavg()"), *full, weighting="uniform").server[0]
    found = replay(method_of("fedgmt(gamma=0)"), *full, weighting="uniform").server[0]
    np.testing.assert_allclose(found, 2 * plain - w_0, rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fedtoga() + feddyn()", "store their state under the name 'dual'"),
        ("fedtoga() + sam()", "both choose where a client's gradient is taken"),
        ("fedwmsam() + sam()", "both choose where a client's gradient is taken"),
        ("fedsol() + asam()", "both choose where a client's gradient is taken"),
        ("fedgmt() + feddyn()", "both decide where the server steps to"),
        ("fedgmt() + fednova()", "both decide where the server steps to"),
        ("fedwmsam(a=1)", "a must be less than 1"),
        ("fedgmt(dual='some')", "dual must be"),
        ("fedsol(proximal='x')", "proximal must be"),
        ("fedntd(T=0)", "T must be"),
        ("moon(projection=1.5)", "projection must be"),
        ("fedrs(alpha=2)", "alpha must be"),
        ("fedrs(flavour='code')", "flavour must be"),
        ("feddecorr(scale='code')", "scale must be"),
    ],
)
def test_what_else_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SettingError, match=reason):
        method_of(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fedwmsam() + scaffold()", "control variates of its own"),
        ("fedwmsam() + fedcm()", "control variates of its own"),
        ("fedwmsam() + local_adam()", "which is wrong with local_adam"),
        ("fedwmsam() + poly_rate()", "which is wrong with poly_rate"),
    ],
)
def test_what_fedwmsam_refuses(text: str, reason: str, still: Some) -> None:
    with pytest.raises(SettingError, match=reason):
        prepare(experiment(method_of(text), *still))
