"""Asynchronous servers: FedAsync and FedBuff against their twins, their limits, messages and
state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedflat as ff
from experiments.small import (
    begin,
    experiment,
    final,
    go_on,
    kill_when_stopped,
    rows,
    start,
    timeless,
)
from experiments.stopping import LOCAL_TRAINING
from fedflat.client.local import LocalTraining
from fedflat.client.training import Request, run_client
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast
from fedflat.errors import SettingError
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler
from fedflat.topologies.topology import ClientPopulation, InFlight
from literal import fedasync, fedbuff
from literal.problem import Plan, Problem, random_plan, random_problem
from quadratic import experiment as on_quadratics
from topologies.recorded_exchanges import Spy, replay

EXECUTORS = [InProcess(threads=1), Stacked()]
DRAWN = "durations='lognormal'"


def polynomial(a: float) -> Callable[[int], float]:
    return lambda staleness: (1 + staleness) ** -a


def hinge(a: float, b: float) -> Callable[[int], float]:
    return lambda staleness: 1.0 if staleness <= b else 1 / (a * (staleness - b) + 1)


WEIGHTS = {
    "": polynomial(0.0),
    "staleness='polynomial'": polynomial(0.5),
    "staleness='polynomial', a=1.5": polynomial(1.5),
    "staleness='hinge'": hinge(10, 4),
    "staleness='hinge', a=0.3, b=1": hinge(0.3, 1),
}


def setting(rounds: int = 12) -> tuple[Problem, Plan]:
    """Eight clients of unequal sizes; batch orders for all of them in every round, and no
    cohorts."""
    problem = random_problem(5, clients=8)
    return problem, random_plan(6, problem, rounds=rounds, cohort=8, momentum=0.5, wd=0.01)


def observed(
    topology: str, problem: Problem, plan: Plan, executor: Executor, **more: Any
) -> tuple[Spy, ClientPopulation]:
    """A run whose clients are drawn, four at work unless the topology says otherwise."""
    more = {"sampler": ClientSampler(clients=4), **more}
    exp = replace(
        on_quadratics(
            parse("fedavg", "method"), problem, plan, topology=parse(topology, "topology")
        ),
        **more,
    )
    run_folder = Spy()
    setup = prepare(exp)
    train(setup, run_folder=run_folder, executor=executor)
    return run_folder, setup.server.population


def happened(topology: str, population: ClientPopulation, rounds: int) -> list[InFlight]:
    found = [parse(topology, "topology").in_flight(population, t) for t in range(rounds)]
    assert all(found)
    return found


def schedule_of(topology: str, population: ClientPopulation, rounds: int) -> dict[str, Any]:
    """What a twin must know: who was asked, and how long everybody takes."""
    seconds = parse(topology, "topology")._seconds(population)
    calls = [client for one in happened(topology, population, rounds) for client in one.started]
    return {
        "calls": calls,
        "durations": [seconds(client, 0) for client in range(population.n_clients)],
    }


@pytest.mark.parametrize(
    ("durations", "executor"),
    [("durations='equal'", EXECUTORS[0]), (DRAWN, EXECUTORS[1])],
    ids=["equal", "drawn"],
)
@pytest.mark.parametrize("spec", WEIGHTS)
def test_the_twin_of_fedbuff(spec: str, durations: str, executor: Executor) -> None:
    """One client at a time, and in stacks."""
    problem, plan = setting()
    topology = f"asynchronous(buffer=3, {durations}, {spec})"
    run_folder, population = observed(topology, problem, plan, executor)
    more = schedule_of(topology, population, plan.rounds)
    twin = fedbuff.run(problem, plan, **more, concurrency=4, K=3, s=WEIGHTS[spec])
    np.testing.assert_allclose(run_folder.params(), twin.server, rtol=1e-10, atol=1e-10)
    late = [
        [t - v for v in one.since.values()]
        for t, one in enumerate(happened(topology, population, plan.rounds))
    ]
    assert late == twin.stale
    np.testing.assert_allclose(
        [row["staleness"] for row in run_folder.rows], [np.mean(each) for each in late], rtol=1e-15
    )
    assert len({staleness for each in late for staleness in each}) > 1


def test_the_twin_of_fedbuff_with_clients_that_count_alike() -> None:
    problem, plan = setting()
    topology = f"asynchronous(buffer=2, concurrency=5, {DRAWN}, spread=2)"
    run_folder, population = observed(topology, problem, plan, EXECUTORS[0], weighting="uniform")
    twin = fedbuff.run(
        problem, plan, **schedule_of(topology, population, 12), concurrency=5, K=2, sizes=[1] * 8
    )
    np.testing.assert_allclose(run_folder.params(), twin.server, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("durations", ["durations='equal'", DRAWN], ids=["equal", "drawn"])
@pytest.mark.parametrize("spec", WEIGHTS)
def test_the_twin_of_fedasync(spec: str, durations: str) -> None:
    problem, plan = setting(20)
    topology = f"asynchronous(mixing=0.6, {durations}, {spec})"
    run_folder, population = observed(topology, problem, plan, EXECUTORS[0])
    twin = fedasync.run(
        problem,
        plan,
        **schedule_of(topology, population, 20),
        concurrency=4,
        alpha=lambda t: 0.6,
        s=WEIGHTS[spec],
    )
    np.testing.assert_allclose(run_folder.params(), twin.server, rtol=1e-10, atol=1e-10)
    assert max(twin.stale) > 2


def test_the_mixing_rate_is_that_of_the_round_in_which_a_reply_is_mixed() -> None:
    """Not that of the round in which the client received the model."""
    problem, plan = setting(20)
    topology = f"asynchronous(mixing=decay(0.9, 0.8), {DRAWN})"
    run_folder, population = observed(topology, problem, plan, EXECUTORS[0])
    twin = fedasync.run(
        problem,
        plan,
        **schedule_of(topology, population, 20),
        concurrency=4,
        alpha=lambda t: 0.9 * 0.8**t,
        s=polynomial(0.0),
    )
    np.testing.assert_allclose(run_folder.params(), twin.server, rtol=1e-10, atol=1e-10)
    assert max(twin.stale) > 2


def test_mixing_is_not_stepping_along_an_old_difference() -> None:
    problem, plan = setting()
    mixed, _ = observed("asynchronous(mixing=1.0)", problem, plan, EXECUTORS[0])
    stepped, _ = observed("asynchronous()", problem, plan, EXECUTORS[0])
    assert np.array_equal(mixed.params()[0], stepped.params()[0])
    assert np.abs(mixed.params()[1] - stepped.params()[1]).max() > 1e-3


def test_clients_that_are_given() -> None:
    """They are asked one after the other, as places get free."""
    problem, plan = setting(4)
    plan = replace(plan, cohorts=[[3, 1], [0, 2], [5, 3], [1, 0]])
    run_folder = replay("fedavg", problem, plan, "asynchronous(buffer=2, concurrency=3)")
    calls = [3, 1, 0, 2, 5, 3, 1, 0]
    twin = fedbuff.run(problem, plan, calls=calls, durations=[1.0] * 8, concurrency=3, K=2)
    assert twin.stale == [[0, 0], [1, 0], [1, 1], [0, 0]]
    np.testing.assert_allclose(run_folder.params(), twin.server, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("kind", "executor"), [("uniform", EXECUTORS[0]), ("by_size", EXECUTORS[1])]
)
@pytest.mark.parametrize(
    "method", ["fedsam(0.1) + wima(2)", "fedadam(lr=0.1) + mixup()", "fedcm() + median()"]
)
def test_a_buffer_of_all_at_work_is_fedavg(method: str, kind: str, executor: Executor) -> None:
    """With equal durations: bit for bit, and all that is counted."""
    sampler = ClientSampler(clients=3, kind=kind)
    waiting, not_waiting = (
        train(experiment(method, topology=topology, sampler=sampler), executor=executor)
        for topology in ("star()", "asynchronous(buffer=3)")
    )
    assert torch.equal(waiting.model.params, not_waiting.model.params)  # type: ignore[union-attr]
    assert [row | {"staleness": 0.0} for row in timeless(waiting.rows)] == timeless(
        not_waiting.rows
    )


def test_one_at_work_whose_model_is_taken_is_one_client_a_round() -> None:
    one = ClientSampler(clients=1)
    waiting, not_waiting = (
        train(
            experiment("fedprox()", topology=topology, sampler=one), executor=InProcess(threads=1)
        )
        for topology in ("star()", "asynchronous(mixing=1.0, staleness='hinge')")
    )
    assert torch.equal(waiting.model.params, not_waiting.model.params)  # type: ignore[union-attr]
    assert [row | {"staleness": 0.0} for row in timeless(waiting.rows)] == timeless(
        not_waiting.rows
    )


SLOW = f"asynchronous(buffer=2, concurrency=4, staleness='polynomial', {DRAWN})"
METHODS = ["fedavgm() + wima(2)", "fedcm()", "active_clients()", "fedgloss(0.05, admm=False)"]


@pytest.mark.parametrize("method", METHODS)
def test_a_run_that_was_stopped_ends_with_the_same_bits(method: str, tmp_path: Path) -> None:
    """With clients at work on models of several rounds, and on what the server's pieces sent
    along."""
    exp = experiment(method, topology=SLOW, rounds=9)
    begin(exp, tmp_path / "whole")
    for stop in (3, 5):
        part = tmp_path / f"part{stop}"
        with pytest.raises(KeyboardInterrupt):
            begin(exp, part, stop=stop)
        assert len(rows(part)) == stop
        go_on(exp, part)
        assert final(part) == final(tmp_path / "whole")
        assert timeless(rows(part)) == timeless(rows(tmp_path / "whole"))


@pytest.mark.slow
def test_workers_give_the_same_bits_and_stacks_the_same_numbers() -> None:
    setup = prepare(experiment("fedsam(0.1)", topology=SLOW, dtype="float64"))
    alone, spread, stacked = (
        train(setup, executor=e) for e in (InProcess(threads=1), Workers(2), Stacked())
    )
    assert timeless(alone.rows) == timeless(spread.rows)
    for one, other in zip(alone.rows, stacked.rows, strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-11)
        assert (other["down"], other["up"]) == (one["down"], one["up"])


@pytest.mark.parametrize(
    ("topology", "rounds"), [(SLOW, 40), pytest.param("bank(10, R=7)", 40, marks=pytest.mark.slow)]
)
def test_kill_9_in_the_middle(topology: str, rounds: int, tmp_path: Path) -> None:
    """While clients are at work; of a bank between two meetings."""
    on, part, whole = "digits(lda(0), clients=20)", tmp_path / "part", tmp_path / "whole"
    words = [
        "run",
        "fedavg",
        "--on",
        on,
        "--topology",
        topology,
        "--rounds",
        str(rounds),
        "--clients-per-round",
        "2",
    ]
    more = [
        "--eval-every",
        "40",
        "--checkpoint-every",
        "0",
        "--threads",
        "1",
        "--quiet",
        "--out",
        str(part),
    ]
    kill_when_stopped(start(*words, *more, start_new_session=True, stop_after=(LOCAL_TRAINING, 31)))
    store = Store(part / "checkpoint")
    reached = store.rounds()[0]
    assert 5 < reached < rounds
    assert topology != SLOW or any(name.startswith("sent/") for name in store.read(reached)[0])
    ff.resume(part, quiet=True)
    ff.run(
        "fedavg",
        on=on,
        topology=topology,
        rounds=rounds,
        clients_per_round=2,
        eval_every=40,
        threads=1,
        quiet=True,
        out=whole,
    )
    assert final(part) == final(whole)
    assert timeless(rows(part)) == timeless(rows(whole))


class Counting(Spy):
    """A run folder that looks at the broadcasts in flight."""

    kept: list[list[int]]

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        self.kept.append(sorted(run.sent))


def test_models_are_kept_while_somebody_is_at_work_on_them() -> None:
    """By hand from who was asked when; never more than there are clients at work, however long the
    run."""
    exp = experiment(topology=SLOW, rounds=40)
    run_folder = Counting()
    run_folder.kept = []
    setup = prepare(exp)
    train(setup, run_folder=run_folder)
    found = happened(SLOW, setup.server.population, 40)
    for t in range(30):
        later = {v for one in found[t + 1 :] for v in one.since.values() if v <= t}
        assert later <= set(run_folder.kept[t])
        assert len(run_folder.kept[t]) <= 4
    assert max(map(len, run_folder.kept)) > 1


def test_what_is_sent_is_counted_when_it_is_sent() -> None:
    setup = prepare(experiment(topology=SLOW))
    ledger, one = train(setup).ledger, 4 * setup.job.learner.flat.layout.dim
    asked = sum(len(each.started) for each in happened(SLOW, setup.server.population, 6))
    assert asked > 6 * 2
    assert (ledger.down, ledger.up, ledger.c2c) == (asked * one, 6 * 2 * one, 0)


def test_clients_that_still_work_are_known() -> None:
    """Different clients, as many as there are places, none of them twice with the same model."""
    topology = "asynchronous(buffer=3, concurrency=7, durations='lognormal', spread=1.5)"
    setup = prepare(
        experiment(on=parse("digits(iid(), clients=12)", "data set"), topology=topology, rounds=60)
    )
    at_work: dict[int, int] = {}
    moment = 0.0
    for t in range(60):
        now = setup.exp.topology.in_flight(setup.server.population, t)
        assert now is not None
        for client in now.started:
            assert client not in at_work
            at_work[client] = t
        assert len(now.since) == 3
        for client, since in now.since.items():
            assert at_work.pop(client) == since <= t
        assert 4 <= len(at_work) <= 7
        assert set(at_work.values()) == set(now.left)
        assert now.moment >= moment
        moment = now.moment


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("scaffold()", r"scaffold\(\) cannot be used with asynchronous\(\)"),
        ("feddyn()", r"dual\(0.01\) cannot be used"),
        ("mimelite()", "mime"),
        ("mime()", "mime"),
        ("fedacg()", r"lookahead\(.*\) cannot be used with asynchronous"),
        ("naive_fedgloss(admm=False)", r"server_sam\(.*cannot be used"),
        ("fedala()", "ala"),
        ("fedbn()", "private"),
        ("adabest()", "cannot be used with"),
        ("fedlesam()", "cannot be used with"),
        ("centralised()", "cannot be used with asynchronous"),
    ],
)
def test_methods_that_mean_nothing_there(method: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        experiment(method, topology="asynchronous()")


def test_a_perturbed_model_is_not_mixed_with() -> None:
    experiment("fedgloss(0.05, admm=False)", topology="asynchronous()")
    with pytest.raises(SettingError, match="stale_sam"):
        experiment("fedgloss(0.05, admm=False)", topology="asynchronous(mixing=0.5)")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("asynchronous(buffer=0)", "buffer"),
        ("asynchronous(concurrency=0)", "concurrency"),
        ("asynchronous(staleness='old')", "staleness must be"),
        ("asynchronous(a=1)", "a=1 has no effect with"),
        ("asynchronous(staleness='polynomial', b=1)", "b=1 has no effect with 'polynomial'"),
        ("asynchronous(staleness='hinge', a=-1)", "a must be"),
        ("asynchronous(mixing=0)", "mixing"),
        ("asynchronous(mixing=1.5)", "mixing"),
        ("asynchronous(durations='long')", "durations must be"),
        ("asynchronous(spread=1)", "spread=1 has no effect with 'equal'"),
    ],
)
def test_texts_that_say_no_topology(text: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        parse(text, "topology")


@pytest.mark.parametrize(
    ("topology", "more", "words"),
    [
        (
            "asynchronous(concurrency=6)",
            {},
            "6 clients at work were asked for, but there are only 5 clients",
        ),
        (
            "asynchronous(buffer=6)",
            {},
            "6 replies a step were asked for, but there are only 5 clients",
        ),
        (
            "asynchronous()",
            {"sampler": ClientSampler(clients=2, kind="bernoulli")},
            "no cohort whose size could be random",
        ),
        (
            "asynchronous(buffer=2, concurrency=2)",
            {"sampler": ClientSampler(cohorts=[[0, 0]] * 6)},
            "different clients",
        ),
        (
            "asynchronous(concurrency=2)",
            {"sampler": ClientSampler(cohorts=[[0]] * 6)},
            "client 0 again in round 1",
        ),
        (
            "asynchronous(buffer=2)",
            {"sampler": ClientSampler(cohorts=[[0]] * 6)},
            "client 0 again in round 1",
        ),
        (
            "asynchronous(buffer=3)",
            {"sampler": ClientSampler(cohorts=[[0], [1]] * 3)},
            "client 0 again in round 1",
        ),
        (
            "asynchronous(buffer=2)",
            {"sampler": ClientSampler(cohorts=[[t % 5] for t in range(6)])},
            "in round 4 no client",
        ),
    ],
)
def test_clients_it_cannot_be_made_of(topology: str, more: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        prepare(experiment(topology=topology, **more))


CLOCK = "devices(speed=lognormal(50, 1.0), up=1e3, latency=0.2)"


def test_by_a_clock() -> None:
    """Who comes when is by the clients' devices, worked out here; numbers are those of a twin with
    these durations."""
    problem, plan = setting()
    clock = parse(CLOCK, "clock")
    run_folder, population = observed(
        "asynchronous(buffer=3)", problem, plan, EXECUTORS[0], clock=clock, seed=2
    )
    more = schedule_of("asynchronous(buffer=3)", population, plan.rounds)
    for client, seconds in enumerate(more["durations"]):
        device = clock.device(client, 2)
        computing = 2 * problem.sizes[client] / device.speed  # two epochs
        assert seconds == pytest.approx(
            0.2 + 32 / device.down + computing + 0.2 + 32 / 1e3, rel=1e-12
        )
    assert len(set(more["durations"])) == 8
    twin = fedbuff.run(problem, plan, **more, concurrency=4, K=3)
    np.testing.assert_allclose(run_folder.params(), twin.server, rtol=1e-10, atol=1e-10)
    moments = [one.moment for one in happened("asynchronous(buffer=3)", population, plan.rounds)]
    assert [row["clock"] for row in run_folder.rows] == moments


@pytest.mark.parametrize(
    ("topology", "clock", "words"),
    [
        (
            "asynchronous(durations='equal')",
            "devices()",
            "sets how long clients take, and so does the run's clock",
        ),
        ("asynchronous()", "devices(deadline=3.0)", "does not wait for clients"),
        ("asynchronous()", "devices(extra=0.5)", "does not wait for clients"),
    ],
)
def test_clocks_that_do_not_fit(topology: str, clock: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        prepare(experiment(topology=topology, clock=parse(clock, "clock"), min_replies=1))


def test_running_statistics_are_mixed_as_parameters_are() -> None:
    """By hand, with one client at work."""
    local = LocalTraining(batch_size=3, lr=0.05, drop_last=True)
    more = {"sampler": ClientSampler(clients=1), "model": _normalised, "rounds": 2, "local": local}
    exp = experiment(topology="asynchronous(mixing=0.25)", **more)
    setup = prepare(exp)
    found = train(setup, executor=InProcess(threads=1)).model
    model = setup.job.learner.initial()
    for t in range(2):
        [(client,)] = setup.server.select(t)["server"]
        request = Request(client, Broadcast(t, model.params, model.buffers, exp.lr(t)), {})
        reply, _ = run_client(setup.job, request, setup.fed.data(client))
        x = model.params - reply.delta
        model = Model(0.75 * model.params + 0.25 * x, 0.75 * model.buffers + 0.25 * reply.buffers)
    assert found is not None
    assert (model.buffers != setup.job.learner.initial().buffers).any()
    torch.testing.assert_close(found.params, model.params)
    torch.testing.assert_close(found.buffers, model.buffers)


def _normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
