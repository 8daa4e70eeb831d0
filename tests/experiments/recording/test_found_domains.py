"""Metrics of found domains: they are those of the final model, and refused where undefined."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import fedflat as ff
from fedflat.data.domain_match import mutual_information, purity
from fedflat.errors import SettingError
from fedflat.registry.specs import parse

METRICS = "domain_purity, domain_information, domain_shares, domain_graph, branch_weight"
ON = "transformed(digits(iid(), clients=6), ink=2)"


def test_what_is_recorded_is_that_of_the_model(tmp_path: Path) -> None:
    out = tmp_path / "run"
    ff.run(
        "fedcg(domains=3, every=1, weight=0.5, classifier=logistic())",
        on=ON,
        model="mlp([8])",
        rounds=3,
        clients_per_round=3,
        record=METRICS,
        eval_every=3,
        out=out,
        executor="in-process",
    )
    rows = [json.loads(line) for line in (out / "recorded.jsonl").read_text().splitlines()]
    last = [row for row in rows if "domain_purity" in row][-1]
    module = ff.load(out)
    test = parse(ON, "data set").open(0).test
    images = test.batch(torch.arange(len(test)), torch.float32).inputs
    found = module.student(images).argmax(1).tolist()
    assert last["domain_purity"] == purity(found, test.domains.each)
    assert last["domain_information"] == pytest.approx(mutual_information(found, test.domains.each))
    assert last["domain_shares"] == pytest.approx([found.count(d) / len(found) for d in range(3)])
    assert last["domain_graph"] == pytest.approx(module.adjacency.flatten().tolist())
    assert last["branch_weight"] == pytest.approx(float(module.network.fc2.weight.detach()))
    assert [row["round"] for row in rows if "domain_graph" in row] == [1, 2, 3]


@pytest.mark.parametrize(
    ("method", "on", "metric", "message"),
    [
        ("fedavg()", ON, "domain_graph", "methods with branches"),
        ("fedcg(domains=2, labels='oracle')", ON, "domain_shares", "has none"),
        ("fedcg(domains=2)", "digits(clients=6)", "domain_purity", "one domain or none"),
        ("fedcg(domains=2, agnostic=False)", ON, "branch_weight", "is learnt by"),
    ],
)
def test_what_is_refused(method: str, on: str, metric: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        ff.run(method, on=on, model="mlp([8])", rounds=1, clients_per_round=2, record=metric)
