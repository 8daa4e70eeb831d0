"""Mining: which triplets are chosen, by which model, and what they cost."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import fedflat as ff
from fedflat.analysis.corruptions.evaluate import measure
from fedflat.client.learner import Learner
from fedflat.data.examples import Batch, ClientData, Examples
from fedflat.registry.specs import parse
from fedflat.tasks.retrieval import Retrieval
from fedflat.tasks.task import Supply


def test_a_triple_by_hand() -> None:
    """q = (1, 0), p = (0.8, 0.6): sqrt(0.4); n = (0.96, 0.28): sqrt(0.08); n = (0, 1): sqrt(2) is
    far enough."""
    output = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.96, 0.28], [0.0, 1.0]], dtype=torch.float64)
    triples = torch.tensor([[0, 1, 2], [0, 1, 3], [-1, -1, -1]])
    total, count = Retrieval().loss(output, Batch(output, (torch.zeros(4), triples)))
    assert float(total) == pytest.approx(0.4**0.5 - 0.08**0.5 + 0.1, abs=1e-5)
    assert int(count) == 2


def supply(task: Retrieval, module: nn.Module, data: ClientData, *places: list[int]) -> list[Batch]:
    def output(inputs: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return module(inputs)

    steps = [torch.tensor(step) for step in places]
    rng = torch.Generator().manual_seed(0)
    return list(task.batches(Supply(data, steps, torch.float32, None, lambda: rng, output)))


def test_batches_hold_queries_positives_and_negatives_chosen_by_the_model() -> None:
    x = torch.tensor([[0.0], [1.0], [5.0], [0.4], [9.0], [0.2]])
    data = ClientData(Examples(x, torch.tensor([0, 0, 0, 1, 1, 2])), torch.arange(6))
    task = Retrieval(negatives=2)
    first, second = supply(task, nn.Identity(), data, [0, 3], [5])
    assert first.inputs[:, 0].tolist() == pytest.approx([0, 0.4, 1, 9, 0.2, 0.4, 0.2, 0])
    assert first.targets[1].tolist() == [[0, 2, 4], [0, 2, 5], [1, 3, 6], [1, 3, 7]]
    # Nothing else is where 5 is, so there are five usable queries, and 5 is the first one again.
    assert task.usable(data).tolist() == [0, 1, 2, 3, 4]
    assert second.inputs[0, 0] == 0


def test_a_batch_as_it_is_has_the_loss_of_its_hardest_triples() -> None:
    output, places = (
        torch.randn(12, 3, generator=torch.Generator().manual_seed(0)),
        torch.arange(12) % 4,
    )
    total, count = Retrieval(negatives=2, margin=0.5).loss(output, Batch(output, places))
    far = torch.cdist(output, output)
    expected = 0.0
    for q in range(12):
        same = [k for k in range(12) if k != q and places[k] == places[q]]
        near = min(far[q, k] for k in same)
        hard = sorted(float(far[q, k]) for k in range(12) if places[k] != places[q])[:2]
        expected += sum(max(float(near) - n + 0.5, 0) for n in hard)
    assert int(count) == 24
    assert float(total) == pytest.approx(expected, rel=1e-4)


class Walking(nn.Module):
    """Four numbers to learn, which stretch and turn what is seen."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.scale


def places_of(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(count, 2, generator=rng), torch.randint(4, (count,), generator=rng)


@pytest.mark.parametrize("executor", ["in-process", "stacked"])
def test_mining_follows_the_clients_own_model(executor: str) -> None:
    """A small pool is looked up before every step, with the model of then; in a stack, each client
    with its own."""
    given = [places_of(10, client) for client in range(3)]
    task = Retrieval(negatives=2, margin=1.0, pool=4, refresh=4, width=2)
    result = ff.run(
        "fedavg",
        on=ff.clients_of(given, test=places_of(9, 9)),
        task=task,
        model=Walking,
        rounds=2,
        clients_per_round=3,
        local_epochs=1,
        batch_size=4,
        lr=0.2,
        dtype="float64",
        executor=executor,
        quiet=True,
        drop_last=True,
    )
    assert result.rows[-1]["recall@1"] >= 0
    again = ff.run(
        "fedavg",
        on=ff.clients_of(given, test=places_of(9, 9)),
        task=task,
        model=Walking,
        rounds=2,
        clients_per_round=3,
        local_epochs=1,
        batch_size=4,
        lr=0.2,
        dtype="float64",
        executor="in-process",
        quiet=True,
        drop_last=True,
    )
    torch.testing.assert_close(result.model.params, again.model.params, rtol=1e-9, atol=1e-11)
    seen = ff.run(
        "fedavg",
        on=ff.clients_of(given, test=places_of(9, 9)),
        task=Retrieval(negatives=2, margin=1.0, width=2),
        model=Walking,
        rounds=2,
        clients_per_round=3,
        batch_size=4,
        lr=0.2,
        dtype="float64",
        quiet=True,
        drop_last=True,
    )
    assert not torch.equal(
        seen.model.params, again.model.params
    )  # looked up once a request, it chooses others


@pytest.mark.parametrize(("examples", "warned"), [(8, True), (16, False)])
def test_clients_without_another_place_are_reported_beforehand(
    examples: int, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A way gone twice in steps of about 7 m: after four of them nothing is beyond 25 m, after
    eight there is."""
    on = ff.street(
        targets="place",
        towns=1,
        clients=2,
        examples=examples,
        width=16,
        height=8,
        tests=4,
        unseen_towns=0,
        unseen_weather="",
        weather="sun",
    )
    ff.run(
        "fedavg",
        on=on,
        task="retrieval()",
        model="embedder(width=4)",
        rounds=1,
        clients_per_round=2,
        threads=1,
    )
    printed = capsys.readouterr().err
    assert ("2 of the 2 clients looked at will learn nothing" in printed) == warned


def test_a_corrupted_query_is_looked_up_in_the_clean_gallery() -> None:
    """Queries without any other of their place are found in the gallery, and nowhere without it."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (6, 3, 16, 16), generator=rng, dtype=torch.uint8)
    queries, gallery = (
        ClientData(Examples(x, torch.arange(6), 6), index)
        for index in (torch.arange(6), torch.arange(6))
    )
    learner = Learner(
        parse("embedder(width=4)", "model"), (3, 16, 16), 8, seed=0, task=Retrieval(width=8)
    )
    alone = measure(learner, learner.initial(), queries, kinds=["brightness"], severities=[1])
    assert math.isnan(alone["clean"])
    found = measure(
        learner, learner.initial(), queries, kinds=["brightness"], severities=[1], reference=gallery
    )
    assert found["clean"] == 1.0  # each image is its own nearest
    assert 0 <= found["mean"] <= 1
