"""Runs with a clock: the same numbers as without, and simulated time that can be worked out by
hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import fedflat as ff
from experiments.small import SIZES, begin, experiment, go_on, timeless
from fedflat.client.local import LocalTraining
from fedflat.errors import DataError, FedflatError, RunError, SettingError
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.experiment import EvaluationSchedule, Experiment
from fedflat.experiments.job_spec import Loopback
from fedflat.experiments.results.results import Result
from fedflat.experiments.study import resume, run_one
from fedflat.experiments.train import train
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler

MODEL = 4 * (4 * 5 + 5 + 5 * 3 + 3)
"""Bytes of the model of `experiment`."""


def made(exp: Experiment) -> Result:
    return train(exp, executor=InProcess(1))


def measured(folder: Path, *speeds: float) -> str:
    path = folder / "devices.json"
    devices = {
        str(client): {"speed": speed, "down": MODEL, "up": MODEL / 2}
        for client, speed in enumerate(speeds)
    }
    path.write_text(json.dumps(devices))
    return f"measured('{path}')"


def same_model(one: Result, other: Result) -> None:
    assert one.model is not None
    assert other.model is not None
    assert torch.equal(one.model.params, other.model.params)


def clocks(result: Result) -> list[float]:
    return [row["clock"] for row in result.rows]


def test_two_clients_of_speed_one_and_two_in_three_rounds(tmp_path: Path) -> None:
    assert MODEL == 172
    # sent in 1 s and back in 2 s; six examples at speed 1 and nine at speed 2: every round waits 9
    # s for the first
    exp = experiment(
        clock=measured(tmp_path, 1, 2, 9, 9, 9),
        rounds=3,
        sampler=ClientSampler(cohorts=[[0, 1], [1], [0, 1]]),
    )
    assert clocks(made(exp)) == [1 + 6 + 2, 9 + 1 + 4.5 + 2, 16.5 + 9]


def test_sam_computes_twice(tmp_path: Path) -> None:
    exp = experiment(
        "fedsam",
        clock=measured(tmp_path, 1, 2, 9, 9, 9),
        rounds=1,
        sampler=ClientSampler(cohorts=[[0, 1]]),
    )
    assert clocks(made(exp)) == [1 + 12 + 2]


def test_several_exchanges_come_one_after_the_other(tmp_path: Path) -> None:
    # a probe and a training request, each with a model sent there and back
    cohorts = ClientSampler(cohorts=[[0, 1]])
    exp = experiment(
        "naive_fedgloss", clock=measured(tmp_path, 1, 2, 9, 9, 9), rounds=1, sampler=cohorts
    )
    assert clocks(made(exp)) == [2 * (1 + 6 + 2)]


def test_a_chain_hands_on_from_link_to_link(tmp_path: Path) -> None:
    # 1 s down, 6 s; handed on at the sender's rate in 2 s, 4.5 s; 2 s up; beside it 1 + 12/9 + 2
    cohorts = ClientSampler(cohorts=[[0, 1, 2]])
    exp = experiment(
        clock=measured(tmp_path, 1, 2, 9, 9, 9), rounds=1, sampler=cohorts, topology="chains(cut=2)"
    )
    assert clocks(made(exp)) == [1 + 6 + 2 + 4.5 + 2]


def test_a_chain_that_goes_round_twice(tmp_path: Path) -> None:
    # 1 s down; 4.5 s, 2 s on; 12/9 s, 2 s back; and the same again, with 2 s up at the end
    cohorts, clock = ClientSampler(cohorts=[[1, 2]]), measured(tmp_path, 1, 2, 9, 9, 9)
    exp = experiment(clock=clock, rounds=1, sampler=cohorts, topology="chains(cut=1, passes=2)")
    assert clocks(made(exp)) == pytest.approx([1 + 2 * (4.5 + 2 + 12 / 9 + 2)], rel=1e-12)
    late = {
        "clock": clock.replace("')", "', deadline=13)"),
        "min_replies": 1,
        "topology": "chains(cut=2, passes=2)",
    }
    cut = made(replace(exp, sampler=ClientSampler(cohorts=[[1, 2, 3]]), **late))
    assert (clocks(cut), cut.ledger.missing, cut.ledger.samples) == (
        [13],
        1,
        SIZES[1] + SIZES[2] + 2 * SIZES[3],
    )


def test_clusters_are_side_by_side(tmp_path: Path) -> None:
    exp = experiment(
        clock=measured(tmp_path, 1, 2, 9, 9, 9),
        rounds=2,
        sampler=ClientSampler(cohorts=[[0, 1], [1, 2]]),
        topology="clusters(given_groups([[0, 2], [1, 3, 4]]), shared='all')",
    )
    assert clocks(made(exp)) == [9, 9 + 7.5]


GROUPS = "given_groups([[0, 2], [1, 3, 4]])"
"""In a round requests take 9 s and 7/9 + 3 s, in the next 12/9 + 3 s and 7.5 s, if these are the
cohorts."""
IN_TURN = ClientSampler(cohorts=[[0, 3], [2, 1], [0, 3]])


@pytest.mark.parametrize(
    ("topology", "ends"),
    [
        (f"clusters({GROUPS}, shared='all')", [9, 9 + 7.5, 16.5 + 9]),
        (f"clusters({GROUPS})", [9, 9 + 12 / 9 + 3, 9 + 12 / 9 + 3 + 9]),
        (f"hierarchy({GROUPS}, every=2)", [9, 9 + 12 / 9 + 3, 9 + 12 / 9 + 3 + 9]),
        (f"hierarchy({GROUPS}, every=1)", [9, 9 + 7.5, 16.5 + 9]),
    ],
)
def test_clusters_wait_for_each_other_when_they_meet(
    tmp_path: Path, topology: str, ends: list[float]
) -> None:
    result = made(
        experiment(
            clock=measured(tmp_path, 1, 2, 9, 9, 9), rounds=3, sampler=IN_TURN, topology=topology
        )
    )
    assert clocks(result) == pytest.approx(ends, rel=1e-12)
    met = (
        9 + 12 / 9 + 3 if "every=2" in topology else 7 / 9 + 3 + 7.5
    )  # before the last round of cluster1
    if "shared" not in topology and "every=1" not in topology:
        assert result.rows[-1]["clocks"]["cluster1"] == pytest.approx(met + 7 / 9 + 3, rel=1e-12)


def test_models_of_a_bank_go_on_without_waiting_for_each_other(tmp_path: Path) -> None:
    """Client 0 takes 9 s, 1 takes 7.5 s and 2 takes a = 12/9 + 3 s, each a superclient.

    round 0    chain0 at 0 until 9, chain1 at 2 until a
    round 1    chain0 at 2 from 9 until 9 + a, chain1 at 1 from a until a + 7.5
    round 2    chain0 at 1 from 9 + a until 16.5 + a; chain1 at 2, which is busy, from 9 + a until 9 + 2 a; they meet
    round 3    chain0 at 0 from 16.5 + a
    """
    a = 12 / 9 + 3
    cohorts = ClientSampler(cohorts=[[0, 2], [2, 1], [1, 2], [0, 1]])
    exp = experiment(
        clock=measured(tmp_path, 1, 2, 9, 9, 9),
        rounds=4,
        sampler=cohorts,
        topology="bank(given_groups([[0], [1], [2], [3, 4]]), R=3)",
    )
    whole = made(exp)
    assert clocks(whole) == pytest.approx([9, 9 + a, 16.5 + a, 25.5 + a], rel=1e-12)
    assert whole.rows[2]["clocks"] == pytest.approx(
        {"chain0": 16.5 + a, "chain1": 9 + 2 * a}, rel=1e-12
    )
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "run", stop=2)
    assert timeless(go_on(exp, tmp_path / "run").rows) == timeless(whole.rows)


def test_own_clocks_of_clusters_are_resumed(tmp_path: Path) -> None:
    exp = experiment(
        clock="devices(speed=lognormal(10, 1))", topology=f"hierarchy({GROUPS}, every=3)", rounds=6
    )
    exp = replace(exp, sampler=ClientSampler(clients=1))
    whole = made(exp)
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "run", stop=2)
    assert timeless(go_on(exp, tmp_path / "run").rows) == timeless(whole.rows)


def test_the_first_of_those_who_are_asked_are_taken(tmp_path: Path) -> None:
    # of [0, 1, 2, 3] the server waits for two: client 2 after 1 + 12/9 + 2 s, client 3 after 1 +
    # 7/9 + 2 s
    cohorts = ClientSampler(cohorts=[[0, 1, 2, 3]])
    clock = measured(tmp_path, 1, 2, 9, 9, 9).replace("')", "', extra=1.0)")
    asked = made(experiment(clock=clock, rounds=1, sampler=cohorts))
    taken = made(experiment(rounds=1, sampler=ClientSampler(cohorts=[[2, 3]])))
    assert clocks(asked) == [1 + 12 / 9 + 2]
    same_model(asked, taken)
    assert asked.ledger.down == 2 * taken.ledger.down
    assert asked.ledger.up == taken.ledger.up
    assert asked.ledger.missing == 0


def test_a_reply_past_the_deadline_is_cut_off(tmp_path: Path) -> None:
    clock = measured(tmp_path, 1, 2, 9, 9, 9).replace("')", "', deadline=8)")
    cut = made(
        experiment(clock=clock, rounds=1, sampler=ClientSampler(cohorts=[[0, 1, 2]]), min_replies=1)
    )
    came = made(experiment(rounds=1, sampler=ClientSampler(cohorts=[[1, 2]])))
    assert clocks(cut) == [8]
    same_model(cut, came)
    assert cut.ledger.missing == 1


def test_fewer_than_a_round_needs_end_the_run(tmp_path: Path) -> None:
    clock = measured(tmp_path, 1, 2, 9, 9, 9).replace("')", "', deadline=8)")
    with pytest.raises(
        FedflatError, match=r"2 replies came .* min_replies asks for 3 .* client 0 was too late"
    ):
        made(
            experiment(
                clock=clock, rounds=1, sampler=ClientSampler(cohorts=[[0, 1, 2]]), min_replies=3
            )
        )


def test_a_deadline_that_no_client_meets_names_what_to_change(tmp_path: Path) -> None:
    clock = measured(tmp_path, 1, 2, 9, 9, 9).replace("')", "', deadline=3)")
    with pytest.raises(
        FedflatError,
        match=r"round 1: no client met the deadline of 3 s; the first .* after 3.778 s",
    ):
        made(
            experiment(
                clock=clock, rounds=1, sampler=ClientSampler(cohorts=[[0, 1, 2, 3]]), min_replies=1
            )
        )


def test_a_chain_with_a_late_client_brings_nothing(tmp_path: Path) -> None:
    clock = measured(tmp_path, 1, 2, 9, 9, 9).replace("')", "', deadline=10)")
    cohorts = ClientSampler(cohorts=[[0, 1, 2, 3]])
    cut = made(
        experiment(clock=clock, rounds=1, sampler=cohorts, min_replies=1, topology="chains(cut=2)")
    )
    came = made(
        experiment(rounds=1, sampler=ClientSampler(cohorts=[[2, 3]]), topology="chains(cut=1)")
    )
    assert clocks(cut) == [10]
    same_model(cut, came)


METHODS = [
    "fedavg",
    "fedgloss(rho_s=0.05, rho_l=0.05, beta=10) + wima(window=3)",
    "mimelite",
    "scaffold",
]


@pytest.mark.parametrize("method", METHODS)
def test_a_clock_changes_no_number(method: str) -> None:
    with_clock = made(
        experiment(method, clock="devices(speed=lognormal(10, 1), up=uniform(1, 100))")
    )
    without = made(experiment(method))
    bare = [
        {name: value for name, value in row.items() if name != "clock"}
        for row in timeless(with_clock.rows)
    ]
    assert bare == timeless(without.rows)
    same_model(with_clock, without)
    assert clocks(with_clock) == sorted(clocks(with_clock))
    assert "clock" not in without.rows[-1]


def test_a_stopped_run_goes_on_by_the_same_clock(tmp_path: Path) -> None:
    exp = experiment(
        clock="devices(speed=lognormal(10, 1), up=100, deadline=20, present=on_off(50, 10))",
        min_replies=1,
        seed=1,
    )
    whole = made(exp)
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "run", stop=3)
    assert timeless(go_on(exp, tmp_path / "run").rows) == timeless(whole.rows)


METERED = "devices(speed=1e15, down=1e15, up=1, latency=0)"
"""A second for each byte that is sent to the server."""


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedsmoo", "mimelite", "mime"])
def test_bytes_of_replies_are_known_beforehand(method: str) -> None:
    one = made(experiment(method, clock=METERED, rounds=3, sampler=ClientSampler(clients=1)))
    assert one.ledger.clock == pytest.approx(one.ledger.up, rel=1e-9)


def test_what_stays_with_clients_is_not_carried() -> None:
    module = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    local = LocalTraining(batch_size=20, lr=0.05)
    exp = experiment(
        "fedbn",
        clock=METERED,
        rounds=3,
        sampler=ClientSampler(clients=1),
        model=module,
        local=local,
    )
    ledger = made(exp).ledger
    assert ledger.clock == pytest.approx(ledger.up, rel=1e-9)


@pytest.mark.parametrize(
    "topology", ["chains(cut=2)", "bank(given_groups([[0], [1], [2], [3, 4]]), R=3)"]
)
def test_where_none_can_come_first(topology: str) -> None:
    with pytest.raises(SettingError, match=r"extra=0\.5 in the clock says"):
        made(experiment(clock="devices(extra=0.5)", topology=topology))


@pytest.mark.parametrize(
    ("clock", "message"),
    [
        ("devices(deadline=5)", "--min-replies 1"),
        ("devices(present=on_off(1, 1))", "--min-replies 1"),
    ],
)
def test_a_clock_that_may_lose_replies_needs_min_replies(clock: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        experiment(clock=clock)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"0": {"speed": 1, "down": 1, "up": 1}}', "no entry for 4 of the 5 clients: 1, 2, 3, 4"),
        (
            '{"0": {"speed": -1, "down": 1, "up": 1}}',
            "client '0': speed must be a number of at least 1e-09, found -1",
        ),
        (
            '{"0": {"speed": 1, "down": 0, "up": 1}}',
            "down must be a number of at least 1e-09, found 0",
        ),
        ('{"0": {"speed": 1, "down": 1, "up": NaN}}', "up must be a number"),
        ('{"0": {"speed": 1, "down": 1}}', "must have speed, down and up"),
        ('{"0": {"speed": 1, "down": 1, "up": 1, "colour": 2}}', "must have speed, down and up"),
        ("[]", "must hold an object"),
        ("speed", "is not JSON"),
        ("", "is not JSON"),
    ],
)
def test_a_wrong_file_is_refused_before_round_0(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(content)
    with pytest.raises((SettingError, DataError), match=message):
        made(experiment(clock=f"measured('{path}')"))


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(DataError, match="there is no file"):
        made(experiment(clock="measured('nowhere.json')"))


def test_a_run_is_not_resumed_by_other_devices(tmp_path: Path) -> None:
    clock, run, config = (
        measured(tmp_path, 1, 2, 3, 4),
        tmp_path / "run",
        ExecutionConfig(executor="in-process", threads=1),
    )
    exp = ff.experiment(
        "fedavg", "digits(iid(), clients=4)", model="logistic", clients_per_round=2, rounds=2
    )
    exp = replace(exp, clock=clock, evaluate=EvaluationSchedule(every=2))
    run_one(exp, config, run, until=1)
    before = (tmp_path / "devices.json").read_text()
    measured(tmp_path, 1, 2, 3, 5)
    with pytest.raises(RunError, match="the clock's file is not what it was"):
        resume(run)
    (tmp_path / "devices.json").write_text(before)
    assert clocks(resume(run)[0]) == clocks(made(exp))


def test_the_text_says_it_again() -> None:
    text = "devices(deadline=3, present=on_off(5, 1, by='rounds'), speed=one_of([1, 2], shares=[0.5, 0.5]))"
    assert repr(parse(text, "clock")) == text


LOSING = "devices(speed=lognormal(30, sigma=1.0), extra=0.5, deadline=10, present=on_off(60, 10))"


def small(clock: str | None, executor: Executor) -> Result:
    exp = ff.experiment(
        "fedavg",
        on="digits(lda(0.5), clients=12)",
        model="logistic",
        clients_per_round=4,
        rounds=4,
        eval_every=1,
        lr=0.01,
        seed=2,
        clock=clock,
        min_replies=None if clock is None else 1,
    )
    return train(exp, executor=executor)


def test_a_clock_changes_no_number_of_a_stack() -> None:
    same_model(small("devices(speed=lognormal(10, 1))", Stacked(1)), small(None, Stacked(1)))


@pytest.mark.slow
@pytest.mark.parametrize("executor", [Stacked(1), Workers(2), Loopback()], ids=repr)
def test_wherever_requests_are_made_the_same_clients_come_at_the_same_time(
    executor: Executor,
) -> None:
    here, there = small(LOSING, InProcess(1)), small(LOSING, executor)
    assert clocks(there) == clocks(here)
    assert (there.ledger.down, there.ledger.up) == (here.ledger.down, here.ledger.up)
    assert there.ledger.missing == here.ledger.missing > 0
    if not isinstance(executor, Stacked):  # which rounds otherwise
        same_model(there, here)
