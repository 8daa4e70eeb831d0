"""Where two topologies are the same thing, they give the same bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from experiments.small import experiment, timeless
from fedflat.client.training import Request, run_client
from fedflat.core.messages import Broadcast
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.experiments.prepare import prepare
from fedflat.experiments.results.results import Result
from fedflat.experiments.train import train
from fedflat.server.client_selection import ClientSampler
from literal.problem import Problem, random_plan, random_problem
from topologies.recorded_exchanges import replay

SINGLE = "given_groups([[0], [1], [2], [3], [4]])"


def result(
    method: str, topology: str, executor: Executor = InProcess(threads=1), **more: Any
) -> Result:
    return train(experiment(method, topology=topology, **more), executor=executor)


def same(one: Result, other: Result) -> None:
    """The same model and the same rows, but for names of slots."""
    assert one.model is not None
    assert other.model is not None
    assert torch.equal(one.model.params, other.model.params)
    assert [_unnamed(row) for row in timeless(one.rows)] == [
        _unnamed(row) for row in timeless(other.rows)
    ]


def _unnamed(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "models"}


@pytest.mark.parametrize("executor", [InProcess(threads=1), Stacked()], ids=["alone", "stacked"])
@pytest.mark.parametrize("topology", [f"chains(groups={SINGLE})", "chains(cut=2)"])
@pytest.mark.parametrize(
    "method", ["fedsam(0.1) + wima(2)", "fedadam(lr=0.1) + mixup()", "fedcm() + median()"]
)
def test_a_chain_of_one_client_each_is_the_star(
    method: str, topology: str, executor: Executor
) -> None:
    sampler = ClientSampler(cohorts=[[0, 3], [1, 4], [2, 3], [0, 1], [2, 4], [0, 2]])
    same(
        result(method, topology, executor, sampler=sampler),
        result(method, "star()", executor, sampler=sampler),
    )


def test_fedseq_with_chains_of_one_is_fedavg() -> None:
    """By one option each, whichever clients are selected."""
    alone = train(experiment("fedavg + sam(0.1)"), executor=InProcess(threads=1))
    for output in (f"fedseq({SINGLE})", "fedseq(random(d_min=1, k_max=1))"):
        found = train(experiment(f"{output} + sam(0.1)"), executor=InProcess(threads=1))
        assert [row["models_s2c"] for row in found.rows] == [
            row["models_s2c"] for row in alone.rows
        ]
        if output == f"fedseq({SINGLE})":
            same(found, alone)


def test_one_chain_of_all_clients_is_fedcyclic() -> None:
    """The same clients in the same order, where that is given: the same bits."""
    orders = [
        tuple(prepare(experiment("fedseq(1)")).server.select(t)["server"][0]) for t in range(6)
    ]
    seq = train(experiment("fedseq(1) + sam(0.1)"), executor=InProcess(threads=1))
    cyclic = experiment(
        "fedcyclic() + sam(0.1)", sampler=ClientSampler(cohorts=[list(order) for order in orders])
    )
    same(seq, train(cyclic, executor=InProcess(threads=1)))


@pytest.mark.parametrize("draw", ["together", "each"])
@pytest.mark.parametrize(
    "method", ["scaffold", "feddyn() + sam(0.1) + swa(start=1)", "fedgloss(0.1)", "mime()"]
)
def test_one_cluster_is_the_star(method: str, draw: str) -> None:
    same(result(method, f"clusters(1, draw='{draw}')"), result(method, "star()"))


@pytest.mark.parametrize("kind", ["uniform", "by_size", "bernoulli"])
def test_reductions_hold_for_every_sampler(kind: str) -> None:
    sampler = replace(experiment().sampler, kind=kind)
    alone = result("fedavg", "star()", sampler=sampler)
    same(result("fedavg", "clusters(1)", sampler=sampler), alone)
    same(result("fedavg", f"chains(groups={SINGLE})", sampler=sampler), alone)


def test_one_chain_of_all_clients_is_a_loop() -> None:
    """One client after the other, each from where the one before it ended."""
    exp = experiment(
        "fedsam(0.1)", topology="chains(groups=1)", rounds=2, sampler=ClientSampler(clients=1)
    )
    setup = prepare(exp)
    found = train(setup, executor=InProcess(threads=1)).model
    w, buffers = setup.job.learner.initial().params, setup.job.learner.initial().buffers
    for t in range(2):
        x = w
        [chain] = setup.server.select(t)["server"]
        assert sorted(chain) == [0, 1, 2, 3, 4]
        for client in chain:
            reply, _ = run_client(
                setup.job,
                Request(client, Broadcast(t, x, buffers, exp.lr(t)), {}),
                setup.fed.data(client),
            )
            x = x - reply.delta
        w = w - (w - x)  # as the server steps
    assert found is not None
    assert torch.equal(found.params, w)


@pytest.mark.parametrize("method", ["scaffold", "feddyn(0.1)", "fedadam(lr=0.1)", "adabest()"])
def test_clusters_that_share_nothing_are_federations_of_their_own(method: str) -> None:
    """Also in what depends on how many clients there are: a method's duals and variates are those
    of its cluster."""
    problem = random_problem(3, clients=6)
    plan = random_plan(4, problem, rounds=4, cohort=6)
    groups = [[0, 2, 3, 5], [1, 4]]
    cohorts = [[0, 1, 5], [2, 4, 1], [0, 3, 4], [5, 2, 1]]
    whole = replay(
        method,
        problem,
        replace(plan, cohorts=cohorts),
        "clusters(given_groups([[0, 2, 3, 5], [1, 4]]))",
    )
    for c, group in enumerate(groups):
        own = Problem([problem.H[k] for k in group], [problem.a[k] for k in group], problem.w0)
        mine = replace(
            plan,
            cohorts=[[group.index(k) for k in cohort if k in group] for cohort in cohorts],
            orders=[
                {group.index(k): batches for k, batches in order.items() if k in group}
                for order in plan.orders
            ],
        )
        assert np.array_equal(replay(method, own, mine).params(), whole.params(f"cluster{c}"))


def test_meeting_in_every_round_is_averaging_with_the_weights_of_clusters() -> None:
    """w <- sum_c N_c/N sum_k p_k w_k, p_k within the cluster: to 1e-12, by hand."""
    problem = random_problem(5, clients=6)
    plan = random_plan(6, problem, rounds=4, cohort=4)
    plan = replace(plan, cohorts=[[0, 1, 2, 4], [3, 4, 5, 1], [0, 1, 3, 5], [2, 1, 4, 5]])
    groups = [[0, 2, 3, 5], [1, 4]]
    plan = replace(plan, orders=random_plan(6, problem, rounds=4, cohort=6).orders)
    meeting = "hierarchy(given_groups([[0, 2, 3, 5], [1, 4]]), every=1)"
    found = replay("fedavg", problem, plan, meeting).params("cluster1")
    w = problem.w0
    for t, cohort in enumerate(plan.cohorts):
        new = np.zeros_like(w)
        for group in groups:
            mine = [k for k in cohort if k in group]
            share = sum(problem.sizes[k] for k in group) / sum(problem.sizes)
            for k in mine:
                x = w
                for batch in plan.orders[t][k]:
                    x = x - plan.lr[t] * problem.gradient(k, x, batch)
                new = new + share * problem.sizes[k] / sum(problem.sizes[j] for j in mine) * x
        w = new
        np.testing.assert_allclose(found[t], w, rtol=0, atol=1e-12)
