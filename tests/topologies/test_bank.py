"""FedAsyncSeq: models that move between superclients and are merged every R rounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedflat as ff
from experiments.small import begin, experiment, final, go_on, rows, timeless
from fedflat.errors import SettingError
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler
from literal import fedasyncseq
from literal.problem import Plan, Problem, random_plan, random_problem, toy_q
from quadratic import experiment as on_quadratics
from topologies.recorded_exchanges import Spy, replay

GROUPS = [[0, 3, 5], [1, 4], [2, 6], [7]]
GROUPS_TEXT = "given_groups([[0, 3, 5], [1, 4], [2, 6], [7]])"


def setting(seed: int, superclients: list[list[int]]) -> tuple[Problem, Plan]:
    """Eight clients of unequal sizes in four superclients, of which these train; batch orders for
    all of them."""
    problem = random_problem(seed, clients=8)
    plan = random_plan(seed + 1, problem, rounds=len(superclients), cohort=8, momentum=0.5, wd=0.01)
    return problem, replace(plan, cohorts=superclients)


def clients_of_models(problem: Problem, plan: Plan, topology: str) -> list[list[list[int]]]:
    """The clients that train each model in each round, in order, as the topology says."""
    setup = prepare(
        on_quadratics(
            parse("fedavg", "method"), problem, plan, topology=parse(topology, "topology")
        )
    )
    return [
        [list(chain) for chains in setup.server.select(t).values() for chain in chains]
        for t in range(plan.rounds)
    ]


@pytest.mark.parametrize("executor", [InProcess(threads=1), Stacked()], ids=["alone", "stacked"])
@pytest.mark.parametrize(
    ("spec", "R"), [("2", 2), ("5", 5), ("'superclients'", 4), ("'chains'", 2), ("'never'", None)]
)
def test_the_twin(spec: str, R: int | None, executor: Executor) -> None:
    """Models and what is evaluated between meetings, whose weights are the examples seen since the
    last."""
    problem, plan = setting(3, [[0, 1], [2, 3], [1, 0], [3, 2], [0, 3], [2, 0], [3, 1]])
    topology = f"bank({GROUPS_TEXT}, R={spec})"
    chains = clients_of_models(problem, plan, topology)
    for each, cohort in zip(chains, plan.cohorts, strict=True):
        assert [sorted(chain) for chain in each] == [GROUPS[i] for i in cohort]
    twin = fedasyncseq.run(problem, plan, chains, R)
    run_folder = replay("fedavg", problem, plan, topology, executor=executor)
    for i in (0, 1):
        found, expected = run_folder.params(f"chain{i}"), [bank[i] for bank in twin.bank]
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    losses = [problem.loss(0, w) for w in twin.server]
    np.testing.assert_allclose(
        [row["loss"] for row in run_folder.rows], losses, rtol=1e-10, atol=1e-10
    )
    assert all(list(row["models"]) == ["server"] for row in run_folder.rows)


def test_on_q() -> None:
    """Models go to clients (1, 2), then to (2, 1): worked out apart from the code."""
    problem, plan = toy_q("full")
    exp = on_quadratics(
        parse("fedasyncseq(groups=given_groups([[0], [1]]), R=2)", "method"),
        problem,
        replace(plan, cohorts=[[0, 1], [1, 0]]),
    )
    run_folder = Spy()
    train(exp, run_folder=run_folder)
    for slot in ("chain0", "chain1"):
        np.testing.assert_allclose(run_folder.params(slot)[-1], (1.881, 1.0332), rtol=0, atol=1e-8)


@pytest.mark.parametrize("method", ["fedavg", "fedsam(0.1) + wima(2)", "fedadam(lr=0.1) + mixup()"])
def test_meeting_in_every_round_is_fedseq(method: str) -> None:
    bank, chains = (
        train(experiment(method, topology=topology), executor=InProcess(threads=1))
        for topology in ("bank(3, R=1)", "chains(groups=3)")
    )
    assert torch.equal(bank.model.params, chains.model.params)  # type: ignore[union-attr]
    assert timeless(bank.rows) == timeless(chains.rows)


@pytest.mark.parametrize(("groups", "chains"), [(2, 2), (5, 2), (5, 3), (9, 9)])
def test_where_models_go(groups: int, chains: int) -> None:
    """To different superclients, all their clients, and never back to the one just left."""
    on, sampler = ff.digits(ff.iid(), clients=18), ClientSampler(clients=chains)
    exp = experiment(on=on, topology=f"bank({groups}, R=4)", sampler=sampler, rounds=30)
    setup = prepare(exp)
    members = setup.exp.topology.chains.superclients(setup.server.population)  # type: ignore[attr-defined]
    left: list[Any] = [None] * chains
    seen = set()
    for t in range(30):
        asked = setup.server.select(t)
        assert list(asked) == [f"chain{i}" for i in range(chains)]
        went = [members.index(tuple(sorted(chain))) for [chain] in asked.values()]
        assert len(set(went)) == chains
        assert all(a != b for a, b in zip(went, left, strict=True))
        left = went
        seen.add(tuple(went))
    assert len(seen) > 1
    again = prepare(exp)
    assert [again.server.select(t) for t in (29, 3)] == [setup.server.select(t) for t in (29, 3)]


def test_stopped_and_resumed_between_meetings(tmp_path: Path) -> None:
    exp = experiment("fedavgm() + ema()", topology="bank(4, R=4)")
    begin(exp, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "part", stop=2)
    go_on(exp, tmp_path / "part")
    assert final(tmp_path / "part") == final(tmp_path / "whole")
    assert set(final(tmp_path / "whole")) == {"final.safetensors", "final-server.safetensors"}
    assert timeless(rows(tmp_path / "part")) == timeless(rows(tmp_path / "whole"))


def test_what_is_sent_is_what_fedseq_sends() -> None:
    """The server hands every chain on: C N_S models down and up, and sum K_S - C N_S from client to
    client."""
    on = ff.digits(ff.iid(), clients=5)
    exp = experiment(on=on, topology="bank(given_groups([[0, 1, 2], [3, 4]]), R=3)", rounds=3)
    setup = prepare(exp)
    ledger, one = train(setup).ledger, 4 * setup.job.learner.flat.layout.dim
    assert (ledger.down, ledger.up, ledger.c2c) == (3 * 2 * one, 3 * 2 * one, 3 * 3 * one)


@pytest.mark.parametrize(("R", "every"), [("2", 2), ("'never'", 6), ("1", 1)])
def test_models_wait_for_each_other_when_they_meet(R: str, every: int) -> None:
    """By hand, with superclients of one client: each model's requests come one after the other, and
    so do each client's; models do not wait for each other besides."""
    clock = parse("devices(speed=lognormal(5, 1.0), latency=0.1)", "clock")
    setup = prepare(
        experiment(topology=f"bank(given_groups([[0], [1], [2], [3], [4]]), R={R})", clock=clock)
    )
    found = [row["clock"] for row in train(setup).rows]
    expected, times, free = [], [0.0, 0.0], [0.0] * 5
    for t in range(6):
        chains = [chain for chains in setup.server.select(t).values() for chain in chains]
        for model, (client,) in enumerate(chains):
            times[model] = free[client] = max(
                times[model], free[client]
            ) + setup.server.population.keeps_to_end(client, t)
        expected.append(max(times))
        if (t + 1) % every == 0:
            times = [max(times)] * 2
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("method", "topology", "words"),
    [
        (
            "scaffold()",
            "bank(3)",
            r"scaffold\(\) cannot be used with bank\(3\): it stores a state at each client",
        ),
        (
            "all_clients()",
            "bank(3)",
            r"cannot be used with bank\(3\): it needs the model of every client",
        ),
        ("fedavg", "bank(3, R=0)", "R"),
        ("fedavg", "bank(3, R='often')", "R"),
        ("fedavg", "bank('x')", "a grouping such as"),
        (
            "fedavg",
            "bank(3, R=7)",
            "every 7 rounds, but the run has only 6: they would never merge",
        ),
        ("fedavg", "bank(1)", "are superclients, but there are only 1"),
        ("trimmed_mean(1)", "bank(3)", "needs at least 3 replies a round, but only 1"),
    ],
)
def test_refusals(method: str, topology: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        prepare(experiment(method, topology=topology))


@pytest.mark.parametrize(
    "sampler",
    [ClientSampler(clients=2, kind="bernoulli"), ClientSampler(cohorts=[[0, 1], [0]] * 3)],
)
def test_a_number_of_chains_that_varies(sampler: ClientSampler) -> None:
    with pytest.raises(SettingError, match="every round must have the same number of chains"):
        prepare(experiment(topology="bank(3, R=2)", sampler=sampler))
