"""Metrics of found domains: they are those of the final model, and refused where undefined."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import fedflat as ff
from fedflat.errors import SettingError
from fedflat.experiments.recording.found_domains import mutual_information, purity
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


def test_domains_of_clients_are_compared_with_those_of_their_held_out_images(
    tmp_path: Path,
) -> None:
    on = "transformed(digits(iid(), clients=6, split=0.8, pool=True), ink=2)"
    method = "fedcg(domains=2, labels='kmeans', epochs=30)"
    metrics = "domain_purity, domain_information, domain_shares"
    out = tmp_path / "run"
    ff.run(
        method,
        on=on,
        model="mlp([8])",
        rounds=1,
        clients_per_round=3,
        record=metrics,
        out=out,
        executor="in-process",
    )
    row = json.loads((out / "recorded.jsonl").read_text().splitlines()[-1])
    fed = parse(on, "data set").open(0)
    assert fed.held_out is not None
    assert fed.test.domains is not None
    sizes = [len(part) for part in fed.held_out]
    firsts = [sum(sizes[:client]) for client in range(6)]
    known = [fed.test.domains.each[first] for first in firsts]
    white = sum(size for size, one in zip(sizes, known, strict=True) if one == known[0])
    shares = sorted([white / sum(sizes), 1 - white / sum(sizes)])
    # Models trained on white paper and on black paper are far apart: two clear clusters.
    assert row["domain_purity"] == 1
    assert row["domain_information"] == pytest.approx(1)
    assert sorted(row["domain_shares"]) == pytest.approx(shares)


@pytest.mark.parametrize(
    ("method", "on", "metric", "message"),
    [
        ("fedavg()", ON, "domain_graph", "methods with branches"),
        ("fedcg(domains=2, labels='oracle')", ON, "domain_shares", "is given the known ones"),
        ("fedcg(domains=2)", "digits(clients=6)", "domain_purity", "one domain or none"),
        ("fedcg(domains=2, agnostic=False)", ON, "branch_weight", "is learnt by"),
    ],
)
def test_what_is_refused(method: str, on: str, metric: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        ff.run(method, on=on, model="mlp([8])", rounds=1, clients_per_round=2, record=metric)
