"""What is refused before the first round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

import fedflat as ff
from experiments.small import SIZES, data, experiment
from fedflat.client.local import LocalTraining
from fedflat.errors import FedflatError, SettingError
from fedflat.experiments.prepare import prepare
from fedflat.server.client_selection import ClientSampler


class Narrow(nn.Linear):
    def __init__(self) -> None:
        super().__init__(4, 2)


class Flat(nn.Linear):
    def __init__(self) -> None:
        super().__init__(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).squeeze(1)


class Wordy(nn.Linear):
    def __init__(self) -> None:
        super().__init__(4, 3)

    def forward(self, x: Tensor) -> Any:
        return {"scores": super().forward(x)}


class Other(nn.Linear):
    def __init__(self) -> None:
        super().__init__(5, 3)


class Nothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            Narrow,
            "the model gives 2 class scores, but the labels go up to 2. Make its last layer 3 wide",
        ),
        (Flat, r"turned a batch of 2 into \(2,\); classification needs one row of class scores"),
        (Wordy, "turned a batch of 2 into dict; it must give one tensor"),
        (
            Other,
            r"the model cannot take inputs of shape \(2, 4\): .* Choose a model made for such inputs",
        ),
        (Nothing, "the model has no trainable parameter"),
        ("cnn", "cnn: inputs must be images"),
    ],
)
def test_models_that_do_not_fit(tmp_path: Path, model: Any, message: str) -> None:
    with pytest.raises(FedflatError, match=message):
        ff.run(
            "fedavg", on=data(), rounds=1, clients_per_round=2, model=model, out=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


def whole(k: int) -> list[list[int]]:
    return [list(range(SIZES[k]))]


@pytest.mark.parametrize(
    ("orders", "message"),
    [
        ([{0: whole(0), 1: whole(1)}], "none for client 0 in round 2. Give an order for every"),
        ([{0: whole(0)}] * 2, "none for client 1 in round 1"),
        ([{0: whole(0), 1: [[9]]}] * 2, "of round 1, client 1 must be lists of places from 0 to 8"),
        (
            [{0: [[-1]], 1: whole(1)}] * 2,
            "of round 1, client 0 must be lists of places from 0 to 5",
        ),
        ([{0: [], 1: whole(1)}] * 2, "round 1, client 0"),
        ([{0: [[]], 1: whole(1)}] * 2, "round 1, client 0"),
        ([{0: [[0.5]], 1: whole(1)}] * 2, "round 1, client 0"),
        ([{0: 7, 1: whole(1)}] * 2, "round 1, client 0"),
        ([{0: [7], 1: whole(1)}] * 2, "round 1, client 0"),
        ([{0: [["a"]], 1: whole(1)}] * 2, "round 1, client 0"),
        ([{0: [[0], [[1, 2], [3]]], 1: whole(1)}] * 2, "round 1, client 0"),
        ([3, 4], "round 1, client 0"),
    ],
)
def test_batches_that_cannot_be_cut(tmp_path: Path, orders: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        ff.run(
            "fedavg",
            on=data(),
            rounds=2,
            model="logistic",
            cohorts=[[0, 1]] * 2,
            orders=orders,
            out=tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()


def test_batches_as_given() -> None:
    orders = [{0: [[1, 2], [0]], 1: [[3, 4]]}]
    exp = experiment(
        rounds=1, sampler=ClientSampler(cohorts=[[0, 1]]), local=LocalTraining(orders=orders)
    )
    setup = prepare(exp)
    assert [b.tolist() for b in setup.job.local.batches(0, 0, 0, 6)] == [[1, 2], [0]]
    assert ff.train(setup).ledger.samples == 5


def test_batches_for_clients_drawn_by_size() -> None:
    orders = [{k: whole(k) for k in range(5)}]
    sampler = ClientSampler(clients=2, kind="by_size")
    assert (
        ff.train(experiment(rounds=1, sampler=sampler, local=LocalTraining(orders=orders))).status
        == "done"
    )
    with pytest.raises(SettingError, match="batch orders were given, but none for client"):
        prepare(experiment(rounds=1, sampler=sampler, local=LocalTraining(orders=[{}])))


def test_clients_and_cohorts_are_checked() -> None:
    with pytest.raises(SettingError, match="a round selects 6 clients, but there are only 5"):
        prepare(experiment(sampler=ClientSampler(clients=6)))
    with pytest.raises(SettingError, match="5 cohorts were given for 6 rounds"):
        prepare(experiment(sampler=ClientSampler(cohorts=[[0]] * 5)))
    prepare(
        experiment("centralised", sampler=ClientSampler(clients=6))
    )  # where there is one client only


def test_alpha_by_size_needs_to_know_the_sizes() -> None:
    population = ff.synthetic(clients=20_000)
    with pytest.raises(
        SettingError, match=r"dual\(0.1, by_size=True\): to know how many .* all 20000 clients"
    ):
        prepare(experiment("feddyn(alpha=0.1, by_size=True)", on=population, model=ff.mlp([3])))
    setup = prepare(experiment("feddyn(alpha=0.1, by_size=True)"))
    assert setup.job.mean_examples == sum(SIZES) / len(SIZES)
    assert (
        prepare(experiment("feddyn(alpha=0.1)", on=population, model=ff.mlp([3]))).job.mean_examples
        == 0
    )
