"""Drift correction, client momentum and the later sharpness methods against their literal twins, to
1e-10.

The runs are those of ``test_against_twins``: one to three clients of five, unequal sizes, short
last batches, a falling rate; then with weight decay, momentum and clipping. SCAFFOLD and its kin
refuse momentum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflat.analysis.local_global import client_models as client_models_of
from fedflat.client.local import LocalTraining
from fedflat.core.flat import Model
from fedflat.execution.client_pool import Executor
from fedflat.execution.client_states import ClientStates
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train
from literal import (
    adabest,
    fedacg,
    fedcm,
    feddc,
    fedfsa,
    fedgamma,
    fedlesam,
    fedsmoo,
    fedspeed,
    local_adam,
    mime,
    mofedsam,
    scaffold,
)
from literal.problem import Plan, Problem, random_plan, random_problem
from methods.observers import SEEN, averages, client_models, method_of, spied
from methods.test_against_twins import HARD, ROUNDS, agree, memory, same, setting
from quadratic import Recorder, experiment, replay

Some = tuple[Problem, Plan]


@pytest.fixture(scope="module", params=["plain", "decay, momentum, clip"])
def some(request: pytest.FixtureRequest) -> Some:
    return setting(21, **({} if request.param == "plain" else HARD))


@pytest.fixture(scope="module", params=["plain", "decay, clip"])
def still(request: pytest.FixtureRequest) -> Some:
    """Without momentum, which control variates refuse."""
    return setting(22, **({} if request.param == "plain" else {**HARD, "momentum": 0.0}))


def slower(some: Some, server_lr: float) -> Some:
    return some[0], replace(some[1], server_lr=server_lr)


def stored_states(
    run_folder: Recorder, key: str, name: str, problem: Problem
) -> list[list[np.ndarray]]:
    """What each client remembers after each round; 0 before its first request."""
    zero = np.zeros(problem.dim)
    return [
        [known[k][key][name].numpy() if k in known else zero for k in range(problem.clients)]
        for known in run_folder.learnt
    ]


def server_states(run_folder: Recorder, key: str, name: str) -> list[np.ndarray]:
    return [run.states[key][name].numpy() for run in run_folder.runs]


def local_models(run_folder: Recorder, trace: Any, plan: Plan) -> None:
    """The clients' models of each round, from the notes of ``all_clients()``."""
    for t, cohort in enumerate(plan.cohorts):
        for k in cohort:
            same(client_models(run_folder, t)[k], trace.local[t][k])


@pytest.mark.parametrize("server_lr", [1.0, 0.7])
def test_scaffold(still: Some, server_lr: float) -> None:
    trace = scaffold.run(*slower(still, server_lr))
    run_folder = agree(f"scaffold() + server_sgd({server_lr}) + all_clients()", trace, still)
    same(server_states(run_folder, "scaffold", "c"), trace.c)
    same(stored_states(run_folder, "scaffold", "c", still[0]), trace.c_k)
    local_models(run_folder, trace, still[1])


@pytest.mark.parametrize("state", ["reset", "client", "server"])
def test_local_adam(still: Some, state: str) -> None:
    trace = local_adam.run(*slower(still, 0.7), b1=0.8, b2=0.95, eps=1e-3, state=state)
    text = f"local_adam(b1=0.8, b2=0.95, eps=0.001, state='{state}')"
    run_folder = agree(f"{text} + server_sgd(0.7) + all_clients()", trace, still)
    local_models(run_folder, trace, still[1])
    if state == "server":
        same(server_states(run_folder, "local_adam", "m"), trace.m)
    if state == "client":
        same(stored_states(run_folder, "local_adam", "v", still[0]), trace.kept)


@pytest.mark.parametrize("state", ["reset", "client", "server"])
def test_local_adamw(still: Some, state: str) -> None:
    trace = local_adam.run(*still, decay=0.3, state=state)
    agree(f"local_adamw(weight_decay=0.3, state='{state}')", trace, still)


def test_fedgamma(still: Some) -> None:
    trace = fedgamma.run(*slower(still, 0.8), rho=0.3)
    run_folder = agree("fedgamma(rho=0.3) + server_sgd(0.8)", trace, still)
    same(server_states(run_folder, "scaffold", "c"), trace.c)
    same(stored_states(run_folder, "scaffold", "c", still[0]), trace.c_k)
    assert np.array_equal(
        run_folder.server,
        replay(method_of("scaffold() + sam(0.3) + server_sgd(0.8)"), *still).server,
    )


def test_adabest(some: Some) -> None:
    problem, plan = some
    trace = adabest.run(*some, beta_a=0.7, mu_a=0.05)
    run_folder = agree("adabest(beta=0.7, mu=0.05) + active_clients()", trace, some)
    same(server_states(run_folder, "adabest", "mean"), trace.wbar)
    for t, cohort in enumerate(plan.cohorts):
        for k in cohort:
            same(run_folder.learnt[t][k]["adabest"]["h"], trace.h_k[t][k])
            assert int(run_folder.learnt[t][k]["adabest"]["last"]) == t
    same(averages(method_of("active_clients()"), "active_clients", run_folder, problem), trace.wbar)


@pytest.mark.parametrize("executor", [InProcess(), Stacked()], ids=["one by one", "stacked"])
def test_adabest_by_sample(some: Some, executor: Executor) -> None:
    """Unequal clients, so the mean batch differs from client to client and from round to round."""
    trace = adabest.run(*some, beta_a=0.7, mu_a=0.2, mu_mode="per_sample")
    agree("adabest(beta=0.7, mu=0.2, mu_mode='per_sample')", trace, some, executor=executor)
    assert (
        np.abs(trace.server[-1] - adabest.run(*some, beta_a=0.7, mu_a=0.2).server[-1]).max() > 1e-4
    )


def test_adabest_by_sample_in_a_stack() -> None:
    """Clients of one size in one stack; some stand before others, and some take batches of one
    example."""
    problem = random_problem(25, sizes=(5, 5, 5, 5, 5))
    plan = random_plan(25, problem, ROUNDS, cohort=4, batch=3)
    again = [
        {k: batches if k % 2 else [b[:1] for b in batches] for k, batches in o.items()}
        for o in plan.orders
    ]
    plan = replace(plan, orders=again)
    trace = adabest.run(problem, plan, beta_a=0.7, mu_a=0.2, mu_mode="per_sample")
    same(
        replay(
            method_of("adabest(0.7, 0.2, 'per_sample')"), problem, plan, executor=Stacked()
        ).server,
        trace.server,
    )


def test_adabest_by_sample_of_equal_clients() -> None:
    """Clients of 8 examples, batches of 4, 3 epochs: ``mu`` is multiplied by 3 * 4 / 8."""
    problem = random_problem(23, sizes=(8, 8, 8, 8))
    plan = random_plan(23, problem, ROUNDS, cohort=2)
    local = LocalTraining(epochs=3, batch_size=4, lr=0.03)

    def server(text: str) -> list[np.ndarray]:
        run_folder = Recorder()
        train(
            replace(experiment(method_of(text), problem, plan), local=local), run_folder=run_folder
        )
        return run_folder.server

    by_sample = server("adabest(beta=0.5, mu=0.02, mu_mode='per_sample')")
    same(by_sample, server("adabest(beta=0.5, mu=0.03)"))
    assert np.abs(by_sample[-1] - server("adabest(beta=0.5, mu=0.02)")[-1]).max() > 1e-4


def test_feddc(still: Some) -> None:
    problem, _ = still
    trace = feddc.run(*still, alpha=0.2)
    text = "feddc(alpha=0.2) + active_clients() + all_clients()"
    run_folder = agree(text, trace, still)
    same(server_states(run_folder, "scaffold", "c"), trace.c)
    same(stored_states(run_folder, "scaffold", "c", problem), trace.c_k)
    _, sigma_k = memory(run_folder, problem)
    same(-np.array(sigma_k) / 0.2, trace.h_k)
    same(averages(method_of(text), "active_clients", run_folder, problem), trace.active)
    same(averages(method_of(text), "all_clients", run_folder, problem), trace.all)


@pytest.mark.parametrize("server_lr", [1.0, 0.7])
def test_fedcm(some: Some, server_lr: float) -> None:
    trace = fedcm.run(*slower(some, server_lr), a=0.3)
    run_folder = agree(f"fedcm(a=0.3) + server_sgd({server_lr}) + all_clients()", trace, some)
    same(server_states(run_folder, "mix", "direction"), trace.D)
    local_models(run_folder, trace, some[1])


def test_mofedsam(some: Some) -> None:
    trace = mofedsam.run(*slower(some, 0.9), a=0.3, rho=0.2)
    run_folder = agree("mofedsam(rho=0.2, a=0.3) + server_sgd(0.9)", trace, some)
    same(server_states(run_folder, "mix", "direction"), trace.D)


@pytest.mark.parametrize("lite", [False, True])
@pytest.mark.parametrize("weighting", ["sized", "uniform"])
@pytest.mark.parametrize(("b", "dampening"), [(0.0, 0.0), (0.6, 0.0), (0.6, 0.6), (0.0, 0.3)])
def test_mime(some: Some, lite: bool, b: float, dampening: float, weighting: str) -> None:
    trace = mime.run(*slower(some, 0.8), b=b, dampening=dampening, lite=lite, weighting=weighting)
    text = f"{'mimelite' if lite else 'mime'}(b={b}, dampening={dampening}) + server_sgd(0.8) + all_clients()"
    run_folder = agree(text, trace, some, weighting=weighting)
    if b:
        same(server_states(run_folder, "mime", "m"), trace.m)
    else:
        assert all(not run.states["mime"] for run in run_folder.runs)
    local_models(run_folder, trace, some[1])


def test_fedacg(some: Some) -> None:
    trace = fedacg.run(*some, lam=0.8, beta_p=0.2)
    run_folder = agree("fedacg(lam=0.8, beta=0.2) + all_clients()", trace, some)
    same(server_states(run_folder, "lookahead", "m"), trace.m)
    local_models(run_folder, trace, some[1])
    replay(spied(method_of("fedacg(lam=0.8, beta=0.2)")), *some)
    for seen in SEEN:
        same(seen.sent, trace.sent[seen.round])


@pytest.mark.parametrize("a", [0.0, 0.6, 1.0])
def test_fedspeed(some: Some, a: float) -> None:
    trace = fedspeed.run(*some, rho=0.3, a_s=a, lam=8.0)
    run_folder = agree(f"fedspeed(rho=0.3, a={a}, lam=8.0)", trace, some)
    same(stored_states(run_folder, "dual", "sigma", some[0]), trace.sigma_k)
    assert all(not run.states for run in run_folder.runs)


def states_of(known: dict[int, Any]) -> ClientStates:
    states = ClientStates()
    for client, state in known.items():
        states.stage(client, state)
    states.commit()
    return states


@pytest.mark.parametrize("executor", [InProcess(), Stacked()], ids=["one by one", "stacked"])
def test_the_models_of_clients_who_send_something_else_back(some: Some, executor: Executor) -> None:
    """FedSpeed sends ``w_k - lam sigma_k``; a client's model is ``w_k`` all the same."""
    problem, plan = some
    trace = fedspeed.run(*some, rho=0.3, a_s=0.6, lam=8.0)
    text = "fedspeed(rho=0.3, a=0.6, lam=8.0) + active_clients() + all_clients()"
    run_folder = agree(text, trace, some, executor=executor)
    local_models(run_folder, trace, plan)
    last, all_models, active = [problem.w0] * problem.clients, [], []
    for t, cohort in enumerate(plan.cohorts):
        for k in cohort:
            last[k] = trace.local[t][k]
        all_models.append(sum(last) / problem.clients)
        active.append(sum(trace.local[t].values()) / len(cohort))
    same(averages(method_of(text), "all_clients", run_folder, problem), all_models)
    same(averages(method_of(text), "active_clients", run_folder, problem), active)
    for t, before in enumerate([problem.w0, *trace.server[:-1]]):
        clients = states_of(run_folder.learnt[t - 1] if t else {})
        setup, start = (
            prepare(experiment(method_of(text), *some)),
            Model(torch.from_numpy(before), torch.zeros(0)),
        )
        found = client_models_of(setup, start, t, plan.cohorts[t], clients=clients)
        same(
            [found[k].params for k in plan.cohorts[t]], [trace.local[t][k] for k in plan.cohorts[t]]
        )


def test_fedspeed_as_released(some: Some) -> None:
    """FedDyn's server, and only the perturbed gradient."""
    trace = fedspeed.run(*some, rho=0.3, a_s=1.0, lam=8.0, server="feddyn")
    for a in ("", "a=1, "):
        run_folder = agree(f"fedspeed(rho=0.3, {a}lam=8.0, server='feddyn')", trace, some)
        sigma, sigma_k = memory(run_folder, some[0])
        same(sigma, trace.sigma)
        same(sigma_k, trace.sigma_k)


@pytest.mark.parametrize("s_from", ["mu", "mu_minus_eps"])
def test_fedsmoo(some: Some, s_from: str) -> None:
    trace = fedsmoo.run(*some, rho=0.3, beta=8.0, s_from=s_from)
    run_folder = agree(f"fedsmoo(rho=0.3, beta=8.0, s_from='{s_from}')", trace, some)
    same(server_states(run_folder, "smoo", "s"), trace.s)
    same(stored_states(run_folder, "smoo", "mu", some[0]), trace.mu_k)
    sigma, sigma_k = memory(run_folder, some[0])
    same(sigma, trace.sigma)
    same(sigma_k, trace.sigma_k)


def perturbations(text: str, some: Some, trace: Any) -> None:
    """The perturbation of every gradient is the one of its request."""
    replay(spied(method_of(text)), *some)
    for t, cohort in enumerate(some[1].cohorts):
        for k in cohort:
            first = next(seen for seen in SEEN if (seen.round, seen.client) == (t, k))
            same(first.w - first.sent, trace.eps[t][k])


def test_fedlesam(some: Some) -> None:
    trace = fedlesam.run(*slower(some, 0.9), rho=0.3)
    agree("fedlesam(rho=0.3) + server_sgd(0.9)", trace, some)
    perturbations("fedlesam(rho=0.3) + server_sgd(0.9)", some, trace)
    assert any(np.any(eps) for given in trace.eps for eps in given.values())


def test_fedlesam_with_control_variates(still: Some) -> None:
    trace = fedlesam.run(*still, rho=0.3, variant="scaffold")
    run_folder = agree("fedlesam(rho=0.3) + scaffold()", trace, still)
    same(server_states(run_folder, "scaffold", "c"), trace.c)
    same(stored_states(run_folder, "scaffold", "c", still[0]), trace.c_k)
    perturbations("scaffold() + fedlesam(rho=0.3)", still, trace)


def test_fedlesam_with_duals(some: Some) -> None:
    trace = fedlesam.run(*some, rho=0.3, variant="feddyn", alpha=0.2)
    run_folder = agree("fedlesam(rho=0.3) + feddyn(alpha=0.2)", trace, some)
    sigma, sigma_k = memory(run_folder, some[0])
    same(sigma, trace.sigma)
    same(sigma_k, trace.sigma_k)


LAYERS = {"first": 3, "norm": 1, "second": 2, "bias": 1, "third": 1}
"""Eight coordinates; the layers called "norm" and "bias" are never chosen."""
CUT = {"layers": [[0, 1, 2], [3], [4, 5], [6], [7]], "eligible": [0, 2, 4]}


@pytest.fixture(scope="module")
def layered() -> Some:
    problem = random_problem(24, dim=8)
    return problem, random_plan(24, problem, ROUNDS, cohort=(1, 3), **HARD)


def chosen(run_folder: Recorder, t: int, k: int) -> list[int]:
    """The layers client ``k`` chose in round ``t``, counted among all."""
    return [CUT["eligible"][place] for place in run_folder.learnt[t][k]["fsa"]["chosen"].tolist()]


@pytest.mark.parametrize("score", ["mse", "minmax_mse", "local"])
@pytest.mark.parametrize("selection", ["fsa", "reverse"])
@pytest.mark.parametrize("top", [1, 2])
def test_fedfsa(layered: Some, score: str, selection: str, top: int) -> None:
    config = {"score": score, "selection": selection}
    trace = fedfsa.run(
        *slower(layered, 0.9), rho_default=0.1, rho_larger=0.6, C=top, a=0.4, **config, **CUT
    )
    text = f"fedfsa(0.1, 0.6, top={top}, a=0.4, score='{score}', selection='{selection}') + server_sgd(0.9)"
    run_folder = agree(text, trace, layered, layers=LAYERS)
    same(server_states(run_folder, "mix", "direction"), trace.D)
    for t, cohort in enumerate(layered[1].cohorts):
        for k in cohort:
            assert chosen(run_folder, t, k) == trace.top[t][k]


def test_fedfsa_at_random(layered: Some) -> None:
    """The twin is fed what was drawn."""
    text = "fedfsa(0.1, 0.6, top=2, a=0.4, selection='random')"
    run_folder = replay(method_of(text), *layered, layers=LAYERS)
    drawn = [
        {k: chosen(run_folder, t, k) for k in cohort} for t, cohort in enumerate(layered[1].cohorts)
    ]
    arguments = {"rho_default": 0.1, "rho_larger": 0.6, "C": 2, "a": 0.4, "selection": "random"}
    same(run_folder.server, fedfsa.run(*layered, drawn=drawn, **arguments, **CUT).server)
    choices = [tuple(drawn[t][k]) for t, cohort in enumerate(layered[1].cohorts) for k in cohort]
    assert all(len(set(pair)) == 2 for pair in choices)
    assert len(set(choices)) > 1


EVERY = {
    "scaffold()": lambda q, p: scaffold.run(q, p),
    "fedgamma(0.1)": lambda q, p: fedgamma.run(q, p, rho=0.1),
    "feddc(0.15)": lambda q, p: feddc.run(q, p, alpha=0.15),
    "adabest(0.6, 0.1)": lambda q, p: adabest.run(q, p, beta_a=0.6, mu_a=0.1),
    "mofedsam(0.1, 0.4)": lambda q, p: mofedsam.run(q, p, a=0.4, rho=0.1),
    "mime(0.5)": lambda q, p: mime.run(q, p, b=0.5),
    "mimelite(0.5, 0.5)": lambda q, p: mime.run(q, p, b=0.5, dampening=0.5, lite=True),
    "fedacg(0.7, 0.1)": lambda q, p: fedacg.run(q, p, lam=0.7, beta_p=0.1),
    "fedspeed(0.1, 0.8, 5.0)": lambda q, p: fedspeed.run(q, p, rho=0.1, a_s=0.8, lam=5.0),
    "fedsmoo(0.1, 5.0)": lambda q, p: fedsmoo.run(q, p, rho=0.1, beta=5.0),
    "fedlesam(0.1) + feddyn(0.2)": lambda q, p: fedlesam.run(
        q, p, rho=0.1, variant="feddyn", alpha=0.2
    ),
}


@pytest.mark.parametrize("text", EVERY)
@settings(max_examples=5)
@given(data=st.data())
def test_random_problems(text: str, data: st.DataObject) -> None:
    draw = data.draw
    seed, clients = draw(st.integers(0, 10**6)), draw(st.integers(1, 6))
    # In one dimension FedSMOO's perturbations are rho or -rho, so its duals can cancel to nothing
    # but rounding, and the direction of that is no number to compare.
    problem = random_problem(
        seed, clients=clients, dim=draw(st.integers(2 if "fedsmoo" in text else 1, 5))
    )
    variates = any(name in text for name in ("scaffold", "feddc", "fedgamma"))
    plan = random_plan(
        seed,
        problem,
        5,
        cohort=(1, draw(st.integers(1, clients))),
        batch=draw(st.sampled_from([None, 1, 2, 3])),
        epochs=draw(st.integers(1, 3)),
        lr_decay=draw(st.sampled_from([1.0, 0.8])),
        wd=draw(st.sampled_from([0.0, 0.05])),
        momentum=0.0 if variates else draw(st.sampled_from([0.0, 0.5])),
        clip=draw(st.sampled_from([None, 0.5, 100.0])),
        lr=0.02,
    )
    same(replay(method_of(text), problem, plan).server, EVERY[text](problem, plan).server)
