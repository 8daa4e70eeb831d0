"""Retrieval with roles: queries are compared with database images only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedflat as ff
from fedflat.data.examples import Batch, ClientData, Examples
from fedflat.data.places.targets import DATABASE, QUERY, Places, with_role
from fedflat.errors import SettingError
from fedflat.tasks import recall as search
from fedflat.tasks.recall import RecallMeter, nearest
from fedflat.tasks.retrieval import Retrieval
from fedflat.tasks.task import Supply
from literal import miner

QUERY_AT_0 = ([0.0], [0.0])
METRES = [4.0, 8.0, -9.0, 18.0, 30.0, -40.0, 200.0]
FEATURES = [3.0, 1.5, 2.0, 0.1, 0.8, -0.4, 5.0]


def line(metres: list[float], role: int) -> torch.Tensor:
    at = torch.tensor(metres, dtype=torch.float64)
    return with_role(torch.stack([at, torch.zeros_like(at)], 1), role)


def client(targets: torch.Tensor, features: torch.Tensor) -> ClientData:
    return ClientData(Examples(features, targets), torch.arange(len(targets)))


def one_query() -> ClientData:
    """The check of one dimension: a query at 0 m with feature 0, and seven database images."""
    targets = torch.cat([line([0.0], QUERY), line(METRES, DATABASE)])
    return client(targets, torch.tensor([0.0, *FEATURES]).unsqueeze(1))


def supplied(
    task: Retrieval, data: ClientData, *places: list[int], seed: int = 0, scale: float = 1.0
) -> list[Batch]:
    rng = torch.Generator().manual_seed(seed)
    steps = [torch.tensor(step) for step in places]
    supply = Supply(data, steps, torch.float64, None, lambda: rng, lambda x: x * scale)
    return list(task.batches(supply))


def images(batch: Batch) -> list[float]:
    return [round(float(x), 6) for x in batch.inputs[:, 0]]


def test_the_nearest_positive_and_the_hardest_negatives_of_the_database() -> None:
    """Image 3, nearest of all in descriptors, is neither positive nor negative."""
    [batch] = supplied(Retrieval(negatives=3), one_query(), [0])
    assert images(batch) == [0.0, 1.5, -0.4, 0.8, 5.0]
    assert batch.targets[1].tolist() == [[0, 1, 2], [0, 1, 3], [0, 1, 4]]
    [one] = supplied(Retrieval(), one_query(), [0])
    assert images(one) == [0.0, 1.5, -0.4]  # the thesis takes one negative
    assert Retrieval().negatives == 1


def test_positives_come_from_the_whole_database_and_negatives_from_the_pool() -> None:
    """With the pool {3, 4, 6} the negatives are 4 and 6, and the positive is still 1."""
    wanted = {3, 4, 6}
    seed = next(
        seed
        for seed in range(1000)
        if set(torch.randperm(7, generator=torch.Generator().manual_seed(seed))[:3].tolist())
        == wanted
    )
    [batch] = supplied(Retrieval(negatives=3, pool=3), one_query(), [0], seed=seed)
    assert batch.targets[1].tolist() == [[0, 1, 2], [0, 1, 3], [-1, -1, -1]]
    assert images(batch)[:4] == [0.0, 1.5, 0.8, 5.0]


def test_a_query_without_a_positive_is_not_used() -> None:
    task = Retrieval(within=3)
    assert task.usable(one_query()).tolist() == []
    [batch] = supplied(task, one_query(), [0])
    total, count = task.loss(batch.inputs, batch)
    assert (float(total), int(count)) == (0.0, 0)


def test_ties_go_to_the_lower_index() -> None:
    targets = torch.cat([line([0.0], QUERY), line([1.0, 2.0, 50.0, 60.0], DATABASE)])
    data = client(targets, torch.tensor([0.0, 2.0, -2.0, 3.0, -3.0]).unsqueeze(1))
    [batch] = supplied(Retrieval(), data, [0])
    assert images(batch) == [0.0, 2.0, 3.0]


def random_client(seed: int, count: int = 60) -> ClientData:
    rng = torch.Generator().manual_seed(seed)
    where = 60 * torch.rand(count, 2, generator=rng, dtype=torch.float64)
    roles = torch.randint(0, 2, (count, 1), generator=rng).double()
    features = torch.randn(count, 3, generator=rng, dtype=torch.float64)
    return client(torch.cat([where, roles], 1), features)


@pytest.mark.parametrize("seed", range(3))
def test_batches_equal_the_literal_miner(seed: int) -> None:
    """Every refresh draws a pool of its own; the twin mines the same pools in loops."""
    data = random_client(seed)
    where, roles = data.targets[:, :2].numpy(), data.targets[:, 2].numpy()
    features = data.examples.inputs.numpy()  # type: ignore[attr-defined]
    task = Retrieval(negatives=2, pool=12, refresh=6)
    usable = task.usable(data).tolist()
    assert usable == miner.usable(where, roles, 10, 25)
    steps = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    batches = supplied(task, data, *steps, seed=seed)
    rng = torch.Generator().manual_seed(seed)
    database = [i for i in range(len(roles)) if roles[i] == 1]
    refreshes = [zip(batches, steps, strict=False), zip(batches[2:], steps[2:], strict=True)]
    for refresh, length in zip(refreshes, (2, 1), strict=True):
        drawn = torch.randperm(len(database), generator=rng)[:12].tolist()
        pool = [database[i] for i in drawn]
        for batch, step in list(refresh)[:length]:
            triples: list[tuple[int, int, int]] = []
            for i in step:
                mined = miner.mine(usable[i], where, roles, features, pool, negatives=2)
                triples += [(usable[i], mined[0], n) for n in mined[1]] if mined else []
            total, count = task.loss(batch.inputs, batch)
            assert int(count) == len(triples) > 0
            expected = miner.loss(features, triples)
            assert float(total) / int(count) == pytest.approx(expected, abs=1e-5)


def test_an_epoch_visits_the_usable_queries() -> None:
    data = random_client(1)
    usable = len(Retrieval().usable(data))
    assert 3 < usable < int((data.targets[:, 2] == QUERY).sum())
    assert Retrieval().epoch_size(data) == usable
    assert Retrieval(epoch="images").epoch_size(data) == 60
    [batch] = supplied(Retrieval(epoch="images"), data, [0, usable])  # queries go round
    assert batch.inputs[0].equal(batch.inputs[1])


@pytest.mark.parametrize(
    "targets",
    [
        line([0.0, 3.0, 50.0], QUERY),
        line([0.0, 3.0, 50.0], DATABASE),
        torch.cat([line([0.0], QUERY), line([100.0, 200.0], DATABASE)]),
        torch.cat([line([0.0], QUERY), line([3.0, 4.0], DATABASE)]),
    ],
    ids=["queries only", "database only", "no positive pair", "no negative"],
)
def test_a_client_without_a_triple_makes_one_step_that_changes_nothing(
    targets: torch.Tensor, capsys: pytest.CaptureFixture[str]
) -> None:
    task, x = Retrieval(width=2), torch.rand(3, 2, generator=torch.Generator().manual_seed(0))
    assert task.epoch_size(client(targets, x)) == 1
    test = (x.repeat(2, 1), torch.cat([line([0.0, 50.0, 90.0], role) for role in (0, 1)]))
    result = ff.run(
        "fedavg",
        on=ff.clients_of([(x, targets)], test=test),
        task=task,
        model=lambda: nn.Linear(2, 2),
        rounds=1,
        clients_per_round=1,
        lr=0.5,
        seed=3,
    )
    assert "client 0 will learn nothing" in capsys.readouterr().err
    fresh = ff.run(
        "fedavg",
        on=ff.clients_of([(x, targets)], test=test),
        task=task,
        model=lambda: nn.Linear(2, 2),
        rounds=1,
        clients_per_round=1,
        lr=0.0,
        seed=3,
        quiet=True,
    )
    assert torch.equal(result.model.params, fresh.model.params)


def test_examples_without_a_position_are_refused() -> None:
    unknown = line([0.0, math.nan], QUERY)
    with pytest.raises(SettingError, match=r"1 of the 2 examples of .* have no position \(GPS\)"):
        Places.of(unknown).check("a client")
    with pytest.raises(SettingError, match=r"retrieval needs the place of every example.*\(5, 4\)"):
        Places.of(torch.zeros(5, 4))
    with pytest.raises(SettingError, match="role of an example is 0"):
        Places.of(torch.tensor([[1, 0], [1, 7]])).check("a client")
    with pytest.raises(SettingError, match="retrieval needs the place of every example"):
        ff.run(
            "fedavg",
            on="diabetes(clients=4)",
            task="retrieval()",
            model="mlp",
            rounds=1,
            clients_per_round=2,
        )


def meter_of(task: Retrieval, descriptors: Any, targets: torch.Tensor) -> dict[str, float]:
    meter = task.meter(2)
    output = torch.tensor(descriptors, dtype=torch.float64)
    for rows in torch.arange(len(output)).split(3):
        meter.add(output[rows], Batch(output[rows], targets[rows]))
    return meter.scores()


def test_recall_from_descriptors() -> None:
    """Queries (0,0) at 0 m, (1,0) at 100, (0,1) at 500, of which the last has no positive."""
    queries = line([0.0, 100.0, 500.0], QUERY)
    database = line([30.0, 20.0, 110.0, 100.0, 400.0], DATABASE)
    database[3, 1] = 200.0
    descriptors = [[0, 0], [1, 0], [0, 1], [0.1, 0], [0, 0.2], [1, 0.1], [0.8, 0], [0, 0.9]]
    targets = torch.cat([queries, database])
    found = meter_of(Retrieval(), descriptors, targets)
    assert found["recall@1"] == 1 / 2
    assert found["recall@5"] == 1
    assert found["without_positive"] == 1
    every = meter_of(Retrieval(queries="all"), descriptors, targets)
    assert (every["recall@1"], every["recall@5"]) == (1 / 3, 2 / 3)
    d = np.array(descriptors, dtype=float)
    arguments = (d[:3], queries[:, :2].numpy(), d[3:], database[:, :2].numpy())
    assert miner.recall(*arguments, 2) == 1
    assert miner.recall(*arguments, 2, every=True) == 2 / 3
    alone = meter_of(Retrieval(), descriptors[:3], queries)
    assert math.isnan(alone["recall@1"])  # queries only: there is nothing to search in


@pytest.mark.parametrize("seed", range(3))
def test_recall_equals_the_literal_one(seed: int) -> None:
    data = random_client(seed, 200)
    x, targets = data.examples.inputs, data.targets  # type: ignore[attr-defined]
    query = targets[:, 2] == QUERY
    arguments = [part.numpy() for part in (x[query], targets[query, :2], x[~query])]
    for every in (False, True):
        meter = RecallMeter(4.0, all_queries=every)
        meter.add(x, Batch(x, targets))
        found = meter.scores()
        for n in (1, 5, 10, 20):
            expected = miner.recall(
                *arguments, targets[~query, :2].numpy(), n, radius=4.0, every=every
            )
            assert found[f"recall@{n}"] == expected


@pytest.mark.parametrize("copies", [1, 100])
def test_faiss_finds_what_brute_force_finds(copies: int) -> None:
    """Also with a hundred copies of every descriptor, where the order is that of the indices."""
    pytest.importorskip("faiss")
    rng = torch.Generator().manual_seed(0)
    gallery = torch.randn(1000 // copies, 16, generator=rng).repeat(copies, 1)
    gallery = gallery / gallery.norm(dim=1, keepdim=True)
    queries = torch.cat([gallery[:20], torch.randn(50, 16, generator=rng)])
    for count in (1, 20):
        brute = nearest(queries, gallery, count, faiss=False)
        assert torch.equal(nearest(queries, gallery, count, faiss=True), brute)


def test_candidates_that_are_surely_complete_are_not_searched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("faiss")
    rng = torch.Generator().manual_seed(0)
    gallery, queries = torch.randn(500, 8, generator=rng), torch.randn(30, 8, generator=rng)
    expected = nearest(queries, gallery, 5, faiss=False)
    monkeypatch.setattr(search, "_complete", lambda *a: pytest.fail("searched completely"))
    assert torch.equal(nearest(queries, gallery, 5, faiss=True), expected)


def test_a_domain_is_searched_in_the_whole_database() -> None:
    """Queries of a town are scored apart; the database of a test set serves all of them."""
    on = ff.street(
        targets="place", towns=2, clients=2, examples=8, width=16, height=8, tests=8, seed=0,
        unseen_towns=0, unseen_weather="", weather="sun,rain",
    )  # fmt: skip
    fed = on.open(0)
    roles = fed.test.targets[:, 2]
    assert (roles == QUERY).sum() == (roles == DATABASE).sum() == 8
    result = ff.run(
        "fedavg", on=on, task="retrieval(width=8)", model="embedder(width=4)", rounds=1,
        clients_per_round=1, quiet=True,
    )  # fmt: skip
    tests = result.rows[-1]["tests"]
    assert {"test/town0", "test/town1", "test/rain", "test/sun"} <= set(tests)
    parts = [tests["test/town0"]["recall@1"], tests["test/town1"]["recall@1"]]
    assert result.rows[-1]["recall@1"] == pytest.approx(sum(parts) / 2)


@pytest.mark.parametrize(
    ("queries", "database", "message"),
    [
        ([0.0, 500.0], [3.0], "1 of the 2 queries of the test set 'test' have no database image"),
        ([500.0], [3.0], "'test' has no recall, since none of its 1 queries has a database image"),
        ([500.0], [], "'test' has no recall, since none of its 1 queries"),
        ([], [3.0], "'test' has no recall, since it has no query"),
        ([0.0], [3.0], None),
    ],
)
def test_queries_without_an_answer_are_announced(
    queries: list[float], database: list[float], message: str | None
) -> None:
    targets = torch.cat([line(queries, QUERY), line(database, DATABASE)])
    here = torch.cat([line([0.0], QUERY), line([3.0, 90.0], DATABASE)])
    fed = ff.clients_of(
        [(torch.zeros(3, 2), here)], test=(torch.zeros(len(targets), 2), targets)
    ).open(0)
    remark = Retrieval().remark(fed)
    assert remark == "" if message is None else message in remark
