"""Chains, clusters with a private part and hierarchies agree with their literal twins to 1e-10, in
float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers
from fedflat.experiments.prepare import prepare
from fedflat.registry.specs import parse
from literal import chains, clusters
from literal.problem import Plan, Problem, random_plan, random_problem, toy_q
from quadratic import experiment
from topologies.recorded_exchanges import Spy, replay

MORE: list[dict[str, Any]] = [{}, {"wd": 0.01, "momentum": 0.5, "clip": 2.0}]
EXECUTORS = [InProcess(threads=1), Stacked()]
GROUPS = [[0, 3, 5], [1, 4], [2, 6]]
GROUPS_TEXT = "given_groups([[0, 3, 5], [1, 4], [2, 6]])"


def same(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=1e-10, atol=1e-10)


def setting(seed: int, **more: Any) -> tuple[Problem, Plan]:
    """Seven clients of unequal sizes; orders for all of them in every round."""
    problem = random_problem(seed, clients=7)
    return problem, random_plan(seed + 1, problem, rounds=5, cohort=7, **more)


def cut(cohort: list[int], n: int) -> list[list[int]]:
    """Chains as equal as can be, the longer ones first."""
    longer, rest = divmod(len(cohort), n)
    ends = np.cumsum([longer + (i < rest) for i in range(n)]).tolist()
    return [cohort[end - (longer + (i < rest)) : end] for i, end in enumerate(ends)]


@pytest.mark.parametrize("executor", EXECUTORS, ids=["alone", "stacked"])
@pytest.mark.parametrize("more", MORE, ids=["plain", "decay, momentum, clip"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_cohort_cut_into_chains(n: int, more: dict[str, Any], executor: Executor) -> None:
    problem, plan = setting(n, **more)
    rng = np.random.default_rng(n)
    plan = replace(plan, cohorts=[rng.permutation(7)[: 5 + t % 3].tolist() for t in range(5)])
    twin = chains.run(problem, plan, [cut(cohort, n) for cohort in plan.cohorts])
    same(
        replay("fedavg", problem, plan, f"chains(cut={n})", executor=executor).params(), twin.server
    )


def test_superclients_run_in_an_order_drawn_in_every_round() -> None:
    """The twin is told the order; it is of all the superclient's own clients, and not always the
    same."""
    problem, plan = setting(4)
    plan = replace(plan, cohorts=[[0, 2], [1, 2], [0], [2, 1], [0, 1, 2]])
    received: list[list[list[int]]] = []
    for t, cohort in enumerate(plan.cohorts):
        received.append([])
        for i in cohort:
            received[t].append(order_of(problem, plan, t, i))
            assert sorted(received[t][-1]) == GROUPS[i]
    assert len({tuple(chain) for each in received for chain in each if len(chain) == 3}) > 1
    twin = chains.run(problem, plan, received)
    same(replay("fedavg", problem, plan, f"chains(groups={GROUPS_TEXT})").params(), twin.server)


def order_of(problem: Problem, plan: Plan, t: int, i: int) -> list[int]:
    """The order of a superclient's requests, as the topology says it."""
    topology = parse(f"chains(groups={GROUPS_TEXT})", "topology")
    setup = prepare(experiment(parse("fedavg", "method"), problem, plan, topology=topology))
    [chain] = [chain for chain in setup.server.select(t)["server"] if chain[0] in GROUPS[i]]
    return list(chain)


@pytest.mark.parametrize("executor", EXECUTORS, ids=["alone", "stacked"])
@pytest.mark.parametrize("common", [0, 1, 3, 4])
def test_clusters_with_a_part_of_their_own(common: int, executor: Executor) -> None:
    """From nothing in common to everything; in some rounds a cluster has no participant."""
    problem, plan = setting(common)
    rng = np.random.default_rng(common)
    plan = replace(
        plan, cohorts=[[0, 3], *([int(k) for k in rng.permutation(7)[:3]] for _ in range(4))]
    )
    mask = np.arange(4) < common
    layers = {"body": common, "head": 4 - common} if 0 < common < 4 else {"body": 4}
    shared = {0: "'nothing'", 4: "'all'"}.get(common, "['body']")
    twin = clusters.run(problem, plan, GROUPS, common=mask)
    run_folder = replay(
        "fedavg",
        problem,
        plan,
        f"clusters({GROUPS_TEXT}, shared={shared})",
        layers=layers,
        executor=executor,
    )
    for c in range(3):
        same(run_folder.params(f"cluster{c}"), [models[c] for models in twin.models])


@pytest.mark.parametrize("more", MORE, ids=["plain", "decay, momentum, clip"])
@pytest.mark.parametrize("every", [1, 2, 5])
def test_clusters_that_meet(every: int, more: dict[str, Any]) -> None:
    problem, plan = setting(every, **more)
    twin = clusters.run(problem, plan, GROUPS, every=every)
    run_folder = replay("fedavg", problem, plan, f"hierarchy({GROUPS_TEXT}, every={every})")
    for c in range(3):
        same(run_folder.params(f"cluster{c}"), [models[c] for models in twin.models])
    # what is reported is their mean, between meetings too: the loss of each evaluation is the loss
    # there, on client 0
    same([row["loss"] for row in run_folder.rows], [problem.loss(0, w) for w in twin.mean])
    assert all(row["model"] == "server" for row in run_folder.rows)


@pytest.mark.slow
def test_two_workers_make_the_requests_of_different_chains() -> None:
    problem, plan = setting(9)
    here = replay("fedavg", problem, plan, "chains(cut=3)")
    there = replay("fedavg", problem, plan, "chains(cut=3)", executor=Workers(2))
    assert np.array_equal(here.params(), there.params())
    assert here.ledgers[-1].c2c == there.ledgers[-1].c2c > 0


# Values on the toy problem Q, worked out apart from the code


def close(actual: np.ndarray, expected: Any) -> None:
    np.testing.assert_allclose(actual, np.asarray(expected), rtol=0, atol=5e-9)


def on_q(spec: str) -> Spy:
    """By a topology, or by a method that brings it."""
    problem, plan = toy_q("full")
    if spec.startswith(("fed", "hfl")):
        return replay(spec, problem, plan, None)
    return replay("fedavg", problem, plan, spec)


@pytest.mark.parametrize("spec", ["chains(cut=1)", "fedcyclic()", "fedcyclic() + server_sgd(lr=1)"])
def test_one_superclient_on_q(spec: str) -> None:
    """Client 1, then client 2."""
    close(on_q(spec).params(), [(1.8468, 1.1548), (1.24898112, 0.90833968)])


@pytest.mark.parametrize("spec", ["hierarchy(ALONE, every=2)", "hfl(ALONE, T_c=2)"])
def test_two_clusters_that_meet_on_q(spec: str) -> None:
    run_folder = on_q(spec.replace("ALONE", "given_groups([[0], [1]])"))
    for slot in ("cluster0", "cluster1"):
        close(run_folder.params(slot)[-1], (1.89375, 1.04895))
