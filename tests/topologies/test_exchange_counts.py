"""Models sent from server to clients, back, and from client to client, as the papers count them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fedflat as ff
from experiments.small import begin, experiment, rows
from fedflat.execution.stacked import Stacked
from fedflat.experiments.prepare import prepare
from fedflat.experiments.results.results import Result
from fedflat.experiments.results.summary import summarise
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.train import train

K, C, ROUNDS = 20, 10, 3
"""Clients, those of a round, and rounds."""
EVEN = "given_groups([[0,1,2,3,4],[5,6,7,8,9],[10,11,12,13,14],[15,16,17,18,19]])"
UNEVEN = "given_groups([[0,1,2],[3,4,5,6,7,8,9],[10,11,12],[13,14,15,16,17,18,19]])"
TABLE = {
    "fedavg": (10, 10, 0),  # 2CK
    "fedprox": (10, 10, 0),
    "feddyn": (10, 10, 0),
    "fedavgm + sam(0.05) + wima(2)": (10, 10, 0),
    "scaffold": (20, 20, 0),  # 4CK
    "fedcyclic": (1, 1, 9),  # CK + 1
    f"fedseq({EVEN})": (2, 2, 8),  # C N_S + sum of K = 12
    f"fedseq({EVEN}, passes=3)": (2, 2, 28),  # C N_S + E_S sum of K = 32
    f"fedseq({EVEN}) + fedadam(lr=0.01) + asam(0.1)": (2, 2, 8),
    "fedseq2par(growth=linear(0, b=4))": (2, 2, 8),
    "hfl(2, T_c=1)": (20, 20, 0),  # 2CK in each cluster
    "centralised": (0, 0, 0),
}
"""In a round: server to clients, clients to server, client to client."""


def result(method: str, **more: Any) -> Result:
    output = {
        "rounds": ROUNDS,
        "clients_per_round": C,
        "model": "logistic",
        "eval_every": 1,
        **more,
    }
    exp = ff.experiment(method, f"digits(iid(), clients={K})", **output)
    return train(exp)


@pytest.mark.parametrize("method", TABLE)
def test_the_table(method: str) -> None:
    found, (down, up, across) = result(method), TABLE[method]
    counted = found.ledger.models_s2c, found.ledger.models_c2s, found.ledger.models_c2c
    assert counted == (ROUNDS * down, ROUNDS * up, ROUNDS * across)
    assert found.ledger.models == ROUNDS * (down + up + across)
    for (
        row
    ) in found.rows:  # SCAFFOLD's first round has no variates to send, and sends them all the same
        assert (row["models_s2c"], row["models_c2s"]) == (row["round"] * down, row["round"] * up)
        assert row.get("models_c2c", 0) == row["round"] * across
        assert ("models_c2c" in row) == bool(across)
    assert summarise([found], None)[0].models == found.ledger.models


def test_superclients_of_unequal_sizes() -> None:
    """C N_S + the sum over those sampled: 12 where one of 3 and one of 7 were."""
    exp = ff.experiment(
        f"fedseq({UNEVEN})",
        f"digits(iid(), clients={K})",
        rounds=6,
        clients_per_round=C,
        model="logistic",
    )
    asked = [prepare(exp).server.select(t)["server"] for t in range(6)]
    assert {3, 7} in [set(map(len, each)) for each in asked]
    assert train(exp).ledger.models == sum(2 + sum(map(len, each)) for each in asked)
    assert 2 + 3 + 7 == 12


def test_growing_superclients() -> None:
    """C n(t) + sum of K: n = 4, 4, 8, 8, 12; with C = 1/2 and groups of K/n or one more."""
    exp = ff.experiment(
        "fedseq2par(growth=linear(0.5, b=4))",
        f"digits(iid(), clients={K})",
        rounds=5,
        clients_per_round=C,
        model="logistic",
    )
    asked = [prepare(exp).server.select(t)["server"] for t in range(5)]
    assert list(map(len, asked)) == [2, 2, 4, 4, 6]
    ledger = train(exp).ledger
    assert ledger.models_s2c == ledger.models_c2s == 2 + 2 + 4 + 4 + 6
    assert ledger.models == sum(len(each) + sum(map(len, each)) for each in asked)


@pytest.mark.parametrize(
    ("psi", "models"),
    [
        ("'labels'", 0),
        ("classifier_weights(epochs=1)", 2 * K),
        ("confidence(epochs=1)", 2 * K),
        ("task2vec(draws=64, epochs=1, probe_epochs=1)", K),
    ],
)
def test_describing_clients_before_the_first_round(psi: str, models: int) -> None:
    """A model down and up to train one; of Task2Vec the probe, since what comes back is no
    model."""
    exp = ff.experiment(
        f"fedseq(icg(4, psi={psi}))",
        f"digits(iid(), clients={K})",
        rounds=1,
        clients_per_round=C,
        model="mlp([4])",
        server_data="digits(clients=9)",
    )
    ledger = train(exp).ledger
    assert ledger.models == models + 12
    assert ledger.models_s2c == (models > 0) * K + 2
    assert ledger.models_c2c == 8


def test_models_are_bytes_by_the_size_of_one() -> None:
    exp = experiment("scaffold", rounds=3)
    setup = prepare(exp)
    one = 4 * setup.job.learner.flat.layout.dim
    for ledger in (train(setup).ledger, train(setup, executor=Stacked()).ledger):
        assert (ledger.down, ledger.up) == (one * ledger.models_s2c, one * ledger.models_c2s)


def test_a_folder_from_before_they_were_counted(tmp_path: Path) -> None:
    """Its rows have none: it is read, and they are zero."""
    begin(experiment(), tmp_path / "run")
    path = tmp_path / "run" / "metrics.jsonl"
    assert all("models_s2c" in row for row in rows(tmp_path / "run"))
    old = [
        {k: v for k, v in json.loads(line).items() if k != "chain"}
        for line in path.read_text().splitlines()
    ]
    read = Result.from_record(
        read_record(tmp_path / "run"),
        [{k: v for k, v in row.items() if not k.startswith("models_")} for row in old],
    )
    assert read.ledger.models == 0
    assert read.ledger.down == old[-1]["down"]
    assert summarise([read], None)[0].models == 0
