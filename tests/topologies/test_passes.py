"""Chains with several passes, and a growing number of superclients (FedSeq2Par)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedflat as ff
from experiments.small import begin, experiment, final, go_on, rows, timeless
from fedflat.client.training import Request, run_client
from fedflat.core.messages import Broadcast
from fedflat.errors import SettingError
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.wire_format import decode, encode
from fedflat.execution.workers import Workers
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler
from literal import chains
from literal.problem import random_plan, random_problem
from quadratic import experiment as on_quadratics
from topologies.recorded_exchanges import replay

GROUPS = "given_groups([[0, 3, 5], [1, 4], [2, 6]])"
GROWING = "fedseq2par(growth=linear(0.5, b=2))"


def selected(exp: Experiment) -> list[list[tuple[int, ...]]]:
    setup = prepare(exp)
    return [setup.server.select(t)["server"] for t in range(exp.rounds)]


@pytest.mark.parametrize(
    "topology", [f"chains({GROUPS}, passes=3)", f"chains({GROUPS}, passes=2, draw='share')"]
)
def test_several_passes_are_the_twin_s(topology: str) -> None:
    """On the given batches; a superclient's examples count once, however often it is gone
    through."""
    problem = random_problem(2, clients=7)
    plan = random_plan(3, problem, rounds=4, cohort=7, momentum=0.5, wd=0.01)
    plan = replace(plan, cohorts=[[0, 2], [1, 2], [0], [2, 1]])
    exp = on_quadratics(
        parse("fedavg", "method"), problem, plan, topology=parse(topology, "topology")
    )
    requests = [[list(chain) for chain in each] for each in selected(exp)]
    twin = chains.run(problem, plan, requests)
    for executor in (InProcess(threads=1), Stacked()):
        found = replay("fedavg", problem, plan, topology, executor=executor).params()
        np.testing.assert_allclose(found, twin.server, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("topology", ["chains(groups=2, passes=3)", "chains(cut=1, passes=3)"])
def test_every_pass_has_its_own_order(topology: str) -> None:
    """Each pass goes through the same clients; orders of passes and rounds differ."""
    exp = experiment(
        topology=topology,
        sampler=ClientSampler(clients=2 if "groups" in topology else 5),
        rounds=20,
    )
    orders = []
    for each in selected(exp):
        for chain in each:
            n = len(chain) // 3
            passes = [chain[i * n : i * n + n] for i in range(3)]
            assert len({frozenset(one) for one in passes}) == 1
            assert len(set(passes[0])) == n
            orders.append(passes)
    long = [passes for passes in orders if len(passes[0]) > 2]
    assert any(len(set(passes)) == 3 for passes in long)
    assert len({passes[0] for passes in long}) > 2


def test_the_first_pass_is_what_one_pass_is() -> None:
    one, two = (selected(experiment(topology=f"chains(groups=2, passes={n})")) for n in (1, 2))
    assert [[chain[: len(chain) // 2] for chain in each] for each in two] == one


@pytest.mark.usefixtures("warm_processes")
@pytest.mark.parametrize("method", ["fedavg", "sam(0.1) + mixup()"])
def test_every_request_has_its_own_batches(method: str) -> None:
    """A chain by hand, request by request, each with its number; in another process and on the wire
    too."""
    exp = experiment(f"fedseq(1, passes=2) + {method}", rounds=1, sampler=ClientSampler(clients=1))
    setup = prepare(exp)
    [chain] = setup.server.select(0)["server"]
    assert len(chain) == 10
    start = setup.job.learner.initial()
    x, batches = start.params, dict[int, list[list[int]]]()
    for place, client in enumerate(chain):
        broadcast = Broadcast(
            0, x, start.buffers, exp.lr(0), repetition=chain[:place].count(client)
        )
        order = exp.local.batches(exp.seed, 0, client, setup.fed.size(client), broadcast.repetition)
        batches.setdefault(client, []).append(torch.cat(list(order)).tolist())
        sent = decode(encode(broadcast))
        assert isinstance(sent, Broadcast)
        request = Request(client, sent, {}, "0/1/x")
        reply, _ = run_client(setup.job, request, setup.fed.data(client))
        x = x - reply.delta
    assert all(
        first != second and sorted(first) == sorted(second) for first, second in batches.values()
    )
    for executor in (InProcess(threads=1), Workers(1)):
        model = train(exp, executor=executor).model
        assert model is not None
        assert torch.equal(model.params, start.params - (start.params - x))


def test_a_request_s_number_changes_every_draw_and_none_is_today_s() -> None:
    local = experiment().local
    first, again = ([b.tolist() for b in local.batches(3, 5, 1, 12, request)] for request in (0, 1))
    assert first == [b.tolist() for b in local.batches(3, 5, 1, 12)] != again


GROWTHS = [("linear", 0.5, 2), ("logarithmic", 1.2, 3), ("exponential", 0.3, 2)]


@pytest.mark.parametrize(("kind", "a", "b"), GROWTHS)
def test_superclients_grow_as_the_paper_says(kind: str, a: float, b: int) -> None:
    """n(t) groups of sizes that differ by one at most, and max(1, floor(C n(t))) of them in each
    round."""
    output = f"fedseq2par(growth={kind}({a}, b={b}))"
    exp = ff.experiment(
        output, "digits(iid(), clients=20)", rounds=12, model="logistic", clients_per_round=10
    )
    setup = prepare(exp)
    topology: Any = exp.topology
    seen = []
    for t in range(12):
        n = chains.superclients(kind, a, b, t + 1, 20)
        groups = topology.superclients(setup.server.population, t)
        assert len(groups) == n
        assert sorted(client for group in groups for client in group) == list(range(20))
        assert max(map(len, groups)) - min(map(len, groups)) <= 1
        assert len(setup.server.select(t)["server"]) == max(1, n // 2)
        assert {frozenset(chain) for chain in setup.server.select(t)["server"]} <= set(
            map(frozenset, groups)
        )
        seen.append(groups)
    assert (
        len(set(seen)) == len({len(groups) for groups in seen}) > 2
    )  # the same until there are more
    requests = sum(len(chain) for t in range(12) for chain in setup.server.select(t)["server"])
    assert topology.expected_clients(setup.server.population) == pytest.approx(requests, rel=0.1)


def test_groups_are_put_together_anew() -> None:
    """No nested halves: of clients that were together most are apart after the next growth, and
    others are met."""
    exp = ff.experiment(
        GROWING, "digits(iid(), clients=40)", rounds=8, model="logistic", clients_per_round=20
    )
    setup, topology = prepare(exp), exp.topology
    found = [topology.superclients(setup.server.population, t) for t in (0, 2, 4)]  # type: ignore[call-arg]
    assert [len(groups) for groups in found] == [2, 4, 6]
    for before, after in pairwise(found):
        home = {client: i for i, group in enumerate(before) for client in group}
        assert all(len({home[client] for client in group}) > 1 for group in after)


@pytest.mark.parametrize("spec", [GROWING, "fedseq2par(growth=exponential(0.4, b=2), passes=2)"])
def test_fedseq2par_is_the_twin(spec: str) -> None:
    problem = random_problem(6, clients=7)
    plan = replace(random_plan(7, problem, rounds=6, cohort=7), cohorts=[[0, 1], [1]] * 3)
    exp = on_quadratics(parse(f"fedavg + {spec}", "method"), problem, plan)
    requests = [[list(chain) for chain in each] for each in selected(exp)]
    assert len({len(chain) for each in requests for chain in each}) > 1
    twin = chains.run(problem, plan, requests)
    np.testing.assert_allclose(
        replay(spec, problem, plan, None).params(), twin.server, rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize(
    "spec", ["fedseq(2, passes=2) + sam(0.1)", GROWING + " + fedavgm() + wima(2)"]
)
def test_stopped_and_resumed(spec: str, tmp_path: Path) -> None:
    """At every round of the run, so also just before and after clients are put together anew."""
    exp = experiment(spec, sampler=ClientSampler(clients=3))
    begin(exp, tmp_path / "whole")
    for stop in range(1, 6):
        part = tmp_path / f"part{stop}"
        with pytest.raises(KeyboardInterrupt):
            begin(exp, part, stop=stop)
        go_on(exp, part)
        assert final(part) == final(tmp_path / "whole")
        assert timeless(rows(part)) == timeless(rows(tmp_path / "whole"))


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ("chains(groups=2, passes=0)", "passes must be a whole number of at least 1"),
        ("chains(cut=2, growth=linear(0.5, b=2))", "growth is about superclients"),
        ("chains(groups=2, growth=3)", "growth must be one such as"),
        ("chains(groups=3, growth=linear(0.5, b=2))", "has 3 groups, but linear.* begins with 2"),
        (
            "chains(random(d_min=3, k_max=2), growth=linear(0.5, b=2))",
            "cannot change its number of groups",
        ),
        ("chains(cut=2, draw='share')", "draw is about superclients"),
    ],
)
def test_what_is_refused(topology: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        parse(topology, "topology")
