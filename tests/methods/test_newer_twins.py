"""The newer methods against their literal twins, to 1e-10: runs as in ``test_more_twins``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from literal import (
    fedexp,
    fedgmt,
    fedinit,
    fedlesam,
    fednova,
    fednsam,
    fedsol,
    fedswa,
    fedtoga,
    fedwmsam,
)
from literal.problem import Plan, Problem
from methods.observers import averages, method_of
from methods.test_against_twins import HARD, agree, same, setting
from methods.test_more_twins import local_models, server_states, slower, stored_states
from quadratic import replay

Some = tuple[Problem, Plan]
EXECUTORS = pytest.mark.parametrize(
    "executor", [InProcess(), Stacked()], ids=["one by one", "stacked"]
)


@pytest.fixture(scope="module")
def some() -> Some:
    """With weight decay, momentum and clipping."""
    return setting(51, **HARD)


@pytest.fixture(scope="module")
def still() -> Some:
    """Without momentum, which control variates refuse."""
    return setting(52, **{**HARD, "momentum": 0.0})


@EXECUTORS
@pytest.mark.parametrize("weighting", ["sized", "uniform"])
@pytest.mark.parametrize("flavour", ["paper", "repo"])
def test_fedexp(some: Some, flavour: str, weighting: str, executor: Executor) -> None:
    """From a point between the clients' minima, where their updates point apart."""
    some = replace(some[0], w0=np.mean([a.mean(axis=0) for a in some[0].a], axis=0)), some[1]
    trace = fedexp.run(*some, eps=1e-4, flavour=flavour, weighting=weighting)
    text = f"fedexp(eps=0.0001, flavour='{flavour}')"
    run_folder = agree(text, trace, some, weighting=weighting, executor=executor)
    same([row["eta_g"] for row in run_folder.rows], trace.eta)
    assert max(trace.eta) > 1
    same(averages(method_of(text), "last_two", run_folder, some[0]), trace.evaluated)


@EXECUTORS
@pytest.mark.parametrize("origin", ["sent", "start"])
@pytest.mark.parametrize("first", ["initial", "sent"])
def test_fedinit(some: Some, origin: str, first: str, executor: Executor) -> None:
    options = {"origin": origin, "first": first}
    trace = fedinit.run(*some, beta=0.3, **options)
    text = f"fedinit(beta=0.3, origin='{origin}', first='{first}') + all_clients()"
    local_models(agree(text, trace, some, executor=executor), trace, some[1])
    trace = fedinit.run(*some, beta=0.3, alpha=0.2, **options)
    agree(f"{text} + feddyn(alpha=0.2)", trace, some, executor=executor)


@EXECUTORS
@pytest.mark.parametrize("tau_eff", ["work", "steps"])
@pytest.mark.parametrize("weighting", ["sized", "uniform"])
def test_fednova(some: Some, tau_eff: str, weighting: str, executor: Executor) -> None:
    trace = fednova.run(*slower(some, 0.8), tau_eff=tau_eff, weighting=weighting)
    text = f"fednova(tau_eff='{tau_eff}') + server_sgd(0.8) + all_clients()"
    run_folder = agree(text, trace, some, weighting=weighting, executor=executor)
    local_models(run_folder, trace, some[1])


@pytest.mark.parametrize("tau_eff", ["work", "steps"])
def test_fednova_with_a_proximal_term(still: Some, tau_eff: str) -> None:
    trace = fednova.run(*still, mu=0.7, tau_eff=tau_eff)
    agree(f"fednova(tau_eff='{tau_eff}') + prox(mu=0.7)", trace, still)


def test_fednova_with_a_falling_rate(still: Some) -> None:
    agree("fednova() + poly_rate(power=1)", fednova.run(*still, fall=True), still)


def test_fedswa(some: Some) -> None:
    agree("fedswa(rho=0.2, alpha=1.3)", fedswa.run(*some, rho=0.2, alpha=1.3), some)


@pytest.mark.parametrize("flavour", ["paper", "repo"])
def test_fedmoswa(still: Some, flavour: str) -> None:
    trace = fedswa.run(*still, rho=0.2, alpha=1.3, gamma=0.3, flavour=flavour)
    text = f"fedmoswa(rho=0.2, alpha=1.3, gamma=0.3, flavour='{flavour}') + all_clients()"
    run_folder = agree(text, trace, still)
    same(server_states(run_folder, "scaffold", "m"), trace.m)
    same(stored_states(run_folder, "scaffold", "c", still[0]), trace.c_k)
    local_models(run_folder, trace, still[1])


@pytest.mark.parametrize("ascent", ["local", "momentum"])
@pytest.mark.parametrize("flavour", ["paper", "repo"])
def test_fednsam(some: Some, ascent: str, flavour: str) -> None:
    trace = fednsam.run(*some, lam=0.7, rho=0.3, ascent=ascent, flavour=flavour)
    text = f"fednsam(lam=0.7, rho=0.3, ascent='{ascent}', flavour='{flavour}')"
    run_folder = agree(text, trace, some)
    same(server_states(run_folder, "lookahead", "m"), trace.m)


@EXECUTORS
@pytest.mark.parametrize(
    ("name", "more"),
    [("", {}), ("_s", {"variant": "scaffold"}), ("_d", {"variant": "feddyn", "alpha": 0.1})],
)
def test_fedlesam_as_released(
    still: Some, name: str, more: dict[str, Any], executor: Executor
) -> None:
    """Three tensors of one, two and one coordinates."""
    layers = {"first": 1, "second": 2, "third": 1}
    trace = fedlesam.run(*still, rho=0.3, flavour="repo", tensors=(1, 2, 1), **more)
    text = f"fedlesam{name}(rho=0.3, flavour='repo')"
    agree(text, trace, still, layers=layers, executor=executor)
    paper = replay(method_of(f"fedlesam{name}(rho=0.3)"), *still)
    assert np.abs(trace.server[-1] - paper.server[-1]).max() > 1e-4
    same(paper.server, fedlesam.run(*still, rho=0.3, **more).server)


def test_steps_of_equal_length_leave_fednova_fedavg(some: Some) -> None:
    problem, plan = some
    orders = [{k: batches[:2] for k, batches in order.items()} for order in plan.orders]
    same(
        replay(method_of("fednova()"), problem, replace(plan, orders=orders)).server,
        replay(method_of("fedavg()"), problem, replace(plan, orders=orders)).server,
    )


@pytest.mark.parametrize("dual", ["all", "active"])
def test_fedgmt_without_its_term(some: Some, dual: str) -> None:
    trace = fedgmt.run(*some, alpha=0.7, beta=5.0, dual=dual)
    text = f"fedgmt(alpha=0.7, gamma=0, beta=5, dual='{dual}') + all_clients()"
    run_folder = agree(text, trace, some)
    same(server_states(run_folder, "fedgmt", "e"), trace.e)
    same(stored_states(run_folder, "gmt_dual", "h", some[0]), trace.h_k)
    local_models(run_folder, trace, some[1])


@EXECUTORS
@pytest.mark.parametrize("form", ["fixed", "adaptive"])
def test_fedsol_near_the_sent_model(some: Some, form: str, executor: Executor) -> None:
    trace = fedsol.run(*slower(some, 0.8), rho=0.3, form=form)
    text = f"fedsol(rho=0.3, form='{form}', proximal='l2') + server_sgd(0.8)"
    agree(text, trace, some, executor=executor)


def test_fedtoga(some: Some) -> None:
    options = {"rho": 0.3, "alpha": 0.2, "beta": 0.4, "kappa": 0.7, "past": 0.6}
    trace = fedtoga.run(*some, **options)
    text = ", ".join(f"{name}={value}" for name, value in options.items())
    run_folder = agree(f"fedtoga({text})", trace, some)
    same(server_states(run_folder, "fedtoga", "direction"), trace.D)
    sigma_k = stored_states(run_folder, "dual", "sigma", some[0])
    same(-np.array(sigma_k) / 0.2, trace.h_k)


@EXECUTORS
@pytest.mark.parametrize("flavour", ["paper", "repo"])
def test_fedwmsam(still: Some, flavour: str, executor: Executor) -> None:
    """Three tensors of one, two and one coordinates."""
    layers = {"first": 1, "second": 2, "third": 1}
    options = {"rho": 0.3, "a": 0.3, "lam": 0.4, "flavour": flavour}
    trace = fedwmsam.run(*slower(still, 0.9), **options, tensors=(1, 2, 1))
    text = f"fedwmsam(rho=0.3, a=0.3, lam=0.4, flavour='{flavour}') + server_sgd(0.9)"
    run_folder = agree(text, trace, still, layers=layers, executor=executor)
    same(server_states(run_folder, "fedwmsam", "direction"), trace.D)
    same(server_states(run_folder, "fedwmsam", "c"), trace.c)
    same(server_states(run_folder, "fedwmsam", "a"), trace.a)
    same(stored_states(run_folder, "fedwmsam", "c", still[0]), trace.c_k)
    assert len({round(a, 6) for a in trace.a}) > 2
