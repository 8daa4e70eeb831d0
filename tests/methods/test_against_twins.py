"""Every method agrees with its literal twin to 1e-10, in float64, over whole runs and in its memory
too.

The runs: six rounds or more, one to three clients of five, unequal sizes, mini-batches with a short
last one, two epochs, a falling rate; then the same with weight decay, momentum and clipping.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.experiments.train import train
from literal import (
    ema,
    fedasam,
    fedavg,
    feddyn,
    fedgloss,
    fedopt,
    fedprox,
    fedsam,
    naive_fedgloss,
    swa,
    wima,
)
from literal.problem import Plan, Problem, Trace, random_plan, random_problem
from methods.observers import SEEN, averages, client_models, method_of, spied
from quadratic import Recorder, experiment, replay

ROUNDS = 6
BIAS = np.array([True, True, True, False])
"""The last of four coordinates is a bias where ``weights=3``."""


def same(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=1e-10, atol=1e-10)


def setting(seed: int, **more: Any) -> tuple[Problem, Plan]:
    problem = random_problem(seed)
    return problem, random_plan(seed, problem, ROUNDS, cohort=(1, 3), **more)


HARD = {"wd": 0.02, "momentum": 0.6, "clip": 1.5, "lr": 0.04}


@pytest.fixture(scope="module", params=["plain", "decay, momentum, clip"])
def some(request: pytest.FixtureRequest) -> tuple[Problem, Plan]:
    return setting(11, **({} if request.param == "plain" else HARD))


@pytest.fixture(scope="module")
def hard() -> tuple[Problem, Plan]:
    return setting(12, **HARD)


def agree(text: str, trace: Trace, some: tuple[Problem, Plan], **more: Any) -> Recorder:
    run_folder = replay(method_of(text), *some, **more)
    assert len(run_folder.server) == ROUNDS
    same(run_folder.server, trace.server)
    return run_folder


def memory(run_folder: Recorder, problem: Problem) -> tuple[list[Any], list[Any]]:
    """The server's dual after each round, and every client's; 0 where there is none yet."""
    zero = np.zeros(problem.dim)
    sigma = [run.states["dual"]["sigma"].numpy() for run in run_folder.runs]
    sigma_k = [
        [kept[k]["dual"]["sigma"].numpy() if k in kept else zero for k in range(problem.clients)]
        for kept in run_folder.learnt
    ]
    return sigma, sigma_k


@pytest.mark.parametrize("weighting", ["sized", "uniform"])
@pytest.mark.parametrize("server_lr", [1.0, 0.7])
def test_fedavg(some: tuple[Problem, Plan], weighting: str, server_lr: float) -> None:
    problem, plan = some
    trace = fedavg.run(problem, replace(plan, server_lr=server_lr), weighting=weighting)
    run_folder = agree(
        f"fedavg() + server_sgd(lr={server_lr}) + all_clients()", trace, some, weighting=weighting
    )
    for t, cohort in enumerate(plan.cohorts):
        for k in cohort:
            same(client_models(run_folder, t)[k], trace.local[t][k])


OPTIMISERS = {
    "fedavgm(beta=0.8, lr=0.9)": ({"optimiser": "avgm", "beta_m": 0.8}, 0.9, "server_momentum"),
    "fedadam(lr=0.1)": ({"optimiser": "adam"}, 0.1, "adam"),
    "fedadam(lr=0.2, b1=0.5, b2=0.7, tau=0.01)": (
        {"optimiser": "adam", "b1": 0.5, "b2": 0.7, "tau_a": 0.01},
        0.2,
        "adam",
    ),
    "fedyogi(lr=0.1)": ({"optimiser": "yogi"}, 0.1, "yogi"),
    "fedyogi(lr=0.2, b1=0.5, b2=0.7, tau=0.01)": (
        {"optimiser": "yogi", "b1": 0.5, "b2": 0.7, "tau_a": 0.01},
        0.2,
        "yogi",
    ),
    "fedadagrad(lr=0.1)": ({"optimiser": "adagrad"}, 0.1, "adagrad"),
    "fedadagrad(lr=0.2, b1=0.4, tau=0.01)": (
        {"optimiser": "adagrad", "b1": 0.4, "tau_a": 0.01},
        0.2,
        "adagrad",
    ),
    "fedadam(lr=0.1, flavour='torch')": ({"optimiser": "adam", "flavour": "torch"}, 0.1, None),
    "fedadam(lr=0.3, b1=0.6, b2=0.8, tau=0.05, flavour='torch')": (
        {"optimiser": "adam", "flavour": "torch", "b1": 0.6, "b2": 0.8, "tau_a": 0.05},
        0.3,
        None,
    ),
    "fedadagrad(lr=0.1, flavour='torch')": (
        {"optimiser": "adagrad", "flavour": "torch"},
        0.1,
        None,
    ),
    "fedadagrad(lr=0.3, tau=0.5, flavour='torch')": (
        {"optimiser": "adagrad", "flavour": "torch", "tau_a": 0.5},
        0.3,
        None,
    ),
}


@pytest.mark.parametrize("text", OPTIMISERS)
def test_server_optimisers(some: tuple[Problem, Plan], text: str) -> None:
    problem, plan = some
    arguments, server_lr, key = OPTIMISERS[text]
    trace = fedopt.run(problem, replace(plan, server_lr=server_lr), **arguments)
    run_folder = agree(text, trace, some)
    if key is not None:
        same([run.states[key]["m"] for run in run_folder.runs], trace.m)
        if key != "server_momentum":
            same([run.states[key]["v"] for run in run_folder.runs], trace.v)


@pytest.mark.parametrize("weighting", ["sized", "uniform"])
def test_fedprox(some: tuple[Problem, Plan], weighting: str) -> None:
    problem, plan = some
    trace = fedprox.run(problem, replace(plan, server_lr=0.8), mu_p=0.4, weighting=weighting)
    agree("fedprox(mu=0.4) + server_sgd(lr=0.8)", trace, some, weighting=weighting)


@pytest.mark.parametrize("rho", [0.0, 0.2])
def test_feddyn(some: tuple[Problem, Plan], rho: float) -> None:
    problem, _ = some
    text = "feddyn(alpha=0.2) + active_clients() + all_clients()" + (
        f" + sam({rho})" if rho else ""
    )
    trace = feddyn.run(*some, alpha=0.2, rho_l=rho)
    run_folder = agree(text, trace, some)
    sigma, sigma_k = memory(run_folder, problem)
    same(sigma, trace.sigma)
    same(sigma_k, trace.sigma_k)
    same(averages(method_of(text), "active_clients", run_folder, problem), trace.active)
    same(averages(method_of(text), "all_clients", run_folder, problem), trace.all)


@pytest.mark.parametrize("executor", [InProcess(), Stacked()], ids=["one by one", "stacked"])
def test_feddyn_by_size(some: tuple[Problem, Plan], executor: Executor) -> None:
    problem, _ = some
    text = "feddyn(alpha=0.2, by_size=True) + all_clients()"
    trace = feddyn.run(*some, alpha=0.2, scaled=True)
    run_folder = agree(text, trace, some, executor=executor)
    same(memory(run_folder, problem)[1], trace.sigma_k)
    same(averages(method_of(text), "all_clients", run_folder, problem), trace.all)
    assert np.abs(trace.server[-1] - feddyn.run(*some, alpha=0.2).server[-1]).max() > 1e-4


@pytest.mark.parametrize("executor", [InProcess(), Stacked()], ids=["one by one", "stacked"])
def test_feddyn_with_a_distance(some: tuple[Problem, Plan], executor: Executor) -> None:
    trace = feddyn.run(*some, alpha=0.2, squared=False)
    text = "feddyn(alpha=0.2, penalty='distance')"
    run_folder = agree(text, trace, some, executor=executor)
    same(memory(run_folder, some[0])[1], trace.sigma_k)
    assert np.abs(trace.server[-1] - feddyn.run(*some, alpha=0.2).server[-1]).max() > 1e-4


def steps(seen: list[Any], t: int, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """eps and u of every step of a request, from pairs of gradients."""
    mine = [s for s in seen if (s.round, s.client) == (t, k)]
    return [(there.w - here.w, there.g) for here, there in zip(mine[::2], mine[1::2], strict=True)]


@pytest.mark.parametrize("weighting", ["sized", "uniform"])
def test_fedsam(some: tuple[Problem, Plan], weighting: str) -> None:
    problem, plan = some
    trace = fedsam.run(problem, replace(plan, server_lr=0.9), rho=0.3, weighting=weighting)
    agree("fedsam(rho=0.3) + server_sgd(0.9)", trace, some, weighting=weighting)
    replay(spied(method_of("fedsam(rho=0.3) + server_sgd(0.9)")), *some, weighting=weighting)
    for t, cohort in enumerate(plan.cohorts):
        for k in cohort:
            same([eps for eps, _ in steps(SEEN, t, k)], trace.eps[t][k])
            same([u for _, u in steps(SEEN, t, k)], trace.u[t][k])


@pytest.mark.parametrize(
    ("text", "arguments", "weights"),
    [
        ("fedasam(rho=0.3, eta=0.2)", {"eta_a": 0.2}, None),
        ("fedasam(rho=0.3, eta=0.2)", {"eta_a": 0.2, "is_weight": BIAS}, 3),
        ("fedasam(rho=0.3, eta=0)", {"eta_a": 0.0}, None),
        ("fedasam(rho=0.3, variant='elementwise')", {"variant": "elementwise"}, 3),
    ],
)
def test_fedasam(
    some: tuple[Problem, Plan], text: str, arguments: dict[str, Any], weights: int | None
) -> None:
    trace = fedasam.run(*some, rho=0.3, **arguments)
    agree(text, trace, some, weights=weights)
    replay(spied(method_of(text)), *some, weights=weights)
    cohorts = some[1].cohorts
    for t, k in ((t, k) for t, cohort in enumerate(cohorts) for k in cohort):
        same([eps for eps, _ in steps(SEEN, t, k)], trace.eps[t][k])


LOCAL: Mapping[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("", {}),
    "sam": (", rho_l=0.2", {"local": "sam", "rho_l": 0.2}),
    "asam": ("", {"local": "asam", "rho_l": 0.3, "eta_a": 0.1, "is_weight": BIAS}),
}
"""The local optimisers, in our arguments and the twin's; ASAM is added as a piece."""
PIECE = {"sgd": "", "sam": "", "asam": " + asam(rho=0.3, eta=0.1)"}
SCALES = [(False, "paper"), (True, "paper"), (True, "repo")]


def duals(run_folder: Recorder, trace: Trace, problem: Problem, admm: bool) -> None:
    if admm:
        sigma, sigma_k = memory(run_folder, problem)
        same(sigma, trace.sigma)
        same(sigma_k, trace.sigma_k)
    else:
        assert all("dual" not in run.states for run in run_folder.runs)
        assert not any(run_folder.learnt)


@pytest.mark.parametrize("local", LOCAL)
@pytest.mark.parametrize(("admm", "scale"), SCALES)
@pytest.mark.parametrize("weighting", ["sized", "uniform"])
def test_fedgloss(
    hard: tuple[Problem, Plan], local: str, admm: bool, scale: str, weighting: str
) -> None:
    problem, plan = hard
    ours, theirs = LOCAL[local]
    text = f"fedgloss(rho_s=0.3, beta=8{ours}, admm={admm}, dual_scale='{scale}'){PIECE[local]}"
    beta = 8.0 if admm else None
    trace = fedgloss.run(
        problem, plan, rho_s=0.3, beta=beta, dual_scale=scale, weighting=weighting, **theirs
    )
    run_folder = agree(text, trace, hard, weights=3, weighting=weighting)
    duals(run_folder, trace, problem, admm)
    same([run.states["stale_sam"]["delta"] for run in run_folder.runs], trace.delta)
    measured = agree(
        text.replace("beta", "delta_eps=True, beta"), trace, hard, weights=3, weighting=weighting
    )
    same([row["delta_eps"] for row in measured.rows[1:]], trace.delta_eps[1:])
    duals(measured, trace, problem, admm)


@pytest.mark.parametrize(("server_rho", "admm"), list(product(["constant", "repo"], [False, True])))
def test_fedgloss_with_its_radius_warmed_up(
    some: tuple[Problem, Plan], server_rho: str, admm: bool
) -> None:
    settings = {"rho_s": 0.3, "rho_l": 0.2, "rho_0": 0.02, "T_s": 4, "server_rho": server_rho}
    trace = fedgloss.run(*some, local="sam", beta=8.0 if admm else None, **settings)
    arguments = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    run_folder = agree(f"fedgloss({arguments}, beta=8, admm={admm}, delta_eps=True)", trace, some)
    same([row["delta_eps"] for row in run_folder.rows[1:]], trace.delta_eps[1:])


@pytest.mark.parametrize("local", LOCAL)
def test_the_server_rate_does_not_scale_the_dual(hard: tuple[Problem, Plan], local: str) -> None:
    problem, plan = hard
    ours, theirs = LOCAL[local]
    slower = replace(plan, server_lr=0.6)
    for twin, name in ((fedgloss, "fedgloss"), (naive_fedgloss, "naive_fedgloss")):
        trace = twin.run(problem, slower, rho_s=0.3, beta=8.0, **theirs)
        for text in (
            f"{name}(0.3, beta=8{ours}) + server_sgd(0.6)",
            f"server_sgd(0.6) + {name}(0.3, beta=8{ours})",
        ):
            run_folder = agree(text + PIECE[local], trace, hard, weights=3)
            duals(run_folder, trace, problem, True)


@pytest.mark.parametrize("local", LOCAL)
@pytest.mark.parametrize(("admm", "scale"), SCALES)
def test_naive_fedgloss(hard: tuple[Problem, Plan], local: str, admm: bool, scale: str) -> None:
    problem, _ = hard
    ours, theirs = LOCAL[local]
    text = (
        f"naive_fedgloss(rho_s=0.3, beta=8{ours}, admm={admm}, dual_scale='{scale}'){PIECE[local]}"
    )
    trace = naive_fedgloss.run(
        *hard, rho_s=0.3, beta=8.0 if admm else None, dual_scale=scale, **theirs
    )
    run_folder = agree(text, trace, hard, weights=3)
    duals(run_folder, trace, problem, admm)


EVERY = {
    "fedavg()": lambda q, p: fedavg.run(q, p),
    "fedavgm(0.7)": lambda q, p: fedopt.run(q, p, optimiser="avgm", beta_m=0.7),
    "fedadam(1.0)": lambda q, p: fedopt.run(q, p, optimiser="adam"),
    "fedyogi(1.0)": lambda q, p: fedopt.run(q, p, optimiser="yogi"),
    "fedprox(0.3)": lambda q, p: fedprox.run(q, p, mu_p=0.3),
    "feddyn(0.15) + sam(0.1)": lambda q, p: feddyn.run(q, p, alpha=0.15, rho_l=0.1),
    "fedsam(0.1)": lambda q, p: fedsam.run(q, p, rho=0.1),
    "fedasam(0.1, 0.3)": lambda q, p: fedasam.run(q, p, rho=0.1, eta_a=0.3),
    "naive_fedgloss(0.1, 0.2, beta=5)": lambda q, p: naive_fedgloss.run(
        q, p, rho_s=0.1, beta=5, local="sam", rho_l=0.2
    ),
    "fedgloss(0.1, 0.2, beta=5)": lambda q, p: fedgloss.run(
        q, p, rho_s=0.1, beta=5, local="sam", rho_l=0.2
    ),
}


@pytest.mark.parametrize("text", EVERY)
@settings(max_examples=6)
@given(data=st.data())
def test_random_problems(text: str, data: st.DataObject) -> None:
    draw = data.draw
    seed, clients = draw(st.integers(0, 10**6)), draw(st.integers(1, 6))
    problem = random_problem(seed, clients=clients, dim=draw(st.integers(1, 5)))
    plan = random_plan(
        seed,
        problem,
        4,
        cohort=(1, draw(st.integers(1, clients))),
        batch=draw(st.sampled_from([None, 1, 2, 3, 4])),
        epochs=draw(st.integers(1, 3)),
        lr_decay=draw(st.sampled_from([1.0, 0.8])),
        wd=draw(st.sampled_from([0.0, 0.05])),
        momentum=draw(st.sampled_from([0.0, 0.5])),
        clip=draw(st.sampled_from([None, 0.5, 100.0])),
        lr=0.02,
    )
    same(replay(method_of(text), problem, plan).server, EVERY[text](problem, plan).server)


@pytest.mark.parametrize("base", ["fedavg()", "fedgloss(0.2, rho_l=0.1, beta=8)"])
@pytest.mark.parametrize(("start", "cycle"), [(3, 2), (2, 1), (0, 3), (4, 9)])
def test_swa(some: tuple[Problem, Plan], base: str, start: int, cycle: int) -> None:
    problem, plan = some
    method = method_of(f"{base} + swa(start={start}, cycle={cycle}, high=0.03, low=0.005)")
    cyclic = replace(
        plan, lr=swa.rates(plan.lr, start=start, cycle=cycle, gamma_1=0.03, gamma_2=0.005)
    )
    if base == "fedavg()":
        trace = fedavg.run(problem, cyclic)
    else:
        trace = fedgloss.run(problem, cyclic, rho_s=0.2, local="sam", rho_l=0.1, beta=8)
    run_folder = replay(method, problem, plan)
    same(run_folder.server, trace.server)
    followed = swa.run(trace.server, initial=problem.w0, start=start, cycle=cycle)
    found = averages(method, "swa", run_folder, problem)
    assert [w is None for w in found] == [w is None for w in followed.average]
    same(found[start:], followed.average[start:])
    assert int(run_folder.runs[-1].averages["swa"]["captured"]) == len(followed.captured)


def test_the_ablations_of_swa(some: tuple[Problem, Plan]) -> None:
    problem, plan = some
    cyclic = replace(plan, lr=swa.rates(plan.lr, start=2, cycle=2, gamma_1=0.03, gamma_2=0.005))
    rate_only = method_of("fedavg() + swa(start=2, cycle=2, high=0.03, low=0.005, average=False)")
    run_folder = replay(rate_only, *some)
    same(run_folder.server, fedavg.run(problem, cyclic).server)
    assert averages(rate_only, "swa", run_folder, problem) == [None] * ROUNDS
    mean_only = method_of("fedavg() + swa(start=2, cycle=2, high=0.03, low=0.005, cycle_lr=False)")
    run_folder, trace = replay(mean_only, *some), fedavg.run(*some)
    same(run_folder.server, trace.server)
    expected = swa.run(trace.server, initial=problem.w0, start=2, cycle=2).average
    same(averages(mean_only, "swa", run_folder, problem)[2:], expected[2:])


@pytest.mark.parametrize("window", [1, 2, 3, ROUNDS, ROUNDS + 5])
def test_wima(some: tuple[Problem, Plan], window: int) -> None:
    method = method_of(f"feddyn(alpha=0.2) + wima({window})")
    run_folder, trace = replay(method, *some), feddyn.run(*some, alpha=0.2)
    same(run_folder.server, trace.server)
    same(
        averages(method, "wima", run_folder, some[0]), wima.run(trace.server, window=window).average
    )


@pytest.mark.parametrize("gamma", [0.0, 0.6, 1.0])
def test_ema(some: tuple[Problem, Plan], gamma: float) -> None:
    method = method_of(f"fedsam(0.2) + ema({gamma})")
    run_folder, trace = replay(method, *some), fedsam.run(*some, rho=0.2)
    same(run_folder.server, trace.server)
    same(averages(method, "ema", run_folder, some[0]), ema.run(trace.server, gamma=gamma).average)


def test_feddyn_with_a_schedule(some: tuple[Problem, Plan]) -> None:
    """Clients and server take the alpha of the round."""
    agree("feddyn(alpha=decay(0.4, 0.7))", feddyn.run(*some, alpha=lambda t: 0.4 * 0.7**t), some)


def test_a_schedule_is_read_every_round(some: tuple[Problem, Plan]) -> None:
    """The local radius of FedGloSS without a server radius is FedSAM's with ``warmup``."""
    trace = fedgloss.run(*some, rho_s=0, local="sam", rho_l=0.2, rho_0=0.02, T_s=4)
    agree("fedsam(rho=warmup(0.02, 0.2, 4))", trace, some)


def test_the_probe_of_naive_fedgloss_starts_where_the_server_stands(
    some: tuple[Problem, Plan],
) -> None:
    problem, plan = some
    run_folder = replay(spied(method_of("naive_fedgloss(rho_s=0.3, beta=8)")), *some)
    trace = naive_fedgloss.run(*some, rho_s=0.3, beta=8)
    for t, before in enumerate([problem.w0, *run_folder.server[:-1]]):
        sent = [seen.sent for seen in SEEN if seen.round == t]
        gradients = [seen.client for seen in SEEN if seen.round == t]
        assert len(gradients) == 2 * sum(plan.steps(t, k) for k in plan.cohorts[t])
        half = len(sent) // 2
        same(sent[:half], [before] * half)
        same(sent[half:], [trace.sent[t]] * half)


def test_float32_stays_near_the_twin(some: tuple[Problem, Plan]) -> None:
    """In single precision the same numbers to single precision: nothing hangs on float64."""
    problem, plan = some
    run_folder = Recorder()
    exp = replace(
        experiment(method_of("fedgloss(0.3, 0.2, beta=8)"), problem, plan), dtype="float32"
    )
    train(exp, run_folder=run_folder)
    assert run_folder.runs[-1].model.params.dtype == torch.float32
    trace = fedgloss.run(*some, rho_s=0.3, local="sam", rho_l=0.2, beta=8)
    np.testing.assert_allclose(run_folder.server, trace.server, rtol=1e-4, atol=1e-4)
