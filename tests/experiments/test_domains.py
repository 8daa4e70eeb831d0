"""Each domain of a test set has its scores, and is tested with what its clients keep."""

from __future__ import annotations

import copy
import statistics
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fedflat as ff
from fedflat.client.local import LocalTraining
from fedflat.core.flat import FlatModule, Model
from fedflat.data.domains import Domains
from fedflat.data.examples import ClientData
from fedflat.errors import SettingError
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler
from fedflat.tasks.segmentation import confusion, mean_iou

STREET = {
    "towns": 2,
    "view": "car",
    "width": 32,
    "height": 16,
    "examples": 3,
    "tests": 17,
    "unseen_weather": "",
}
"""Clients 0 and 2: town 0, sun and rain; 1 and 3: town 1, rain and sun. Two clients of each domain
from 4 on."""


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 9, 1)
    )


class RecordingRunFolder(RunFolder):
    """Keeps what clients remember at the end."""

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        self.model, self.clients = run.model, dict(run.clients.by_client.items())


def experiment(
    method: str, clients: int = 4, cohorts: Any = ((0, 1), (2, 1)), **more: Any
) -> Experiment:
    on = ff.street(weather="sun,rain", clients=clients, seed=3, **{**STREET, **more})
    local = LocalTraining(batch_size=3, lr=0.1)
    return Experiment(
        method=parse(method, "method"),
        on=on,
        model=network,
        task=parse("segmentation()", "task"),
        rounds=len(cohorts),
        local=local,
        sampler=ClientSampler(cohorts=[list(cohort) for cohort in cohorts]),
        dtype="float64",
    )


def outcome(method: str, **more: Any) -> tuple[Any, RecordingRunFolder, Any]:
    exp, run_folder = experiment(method, **more), RecordingRunFolder()
    train(exp, run_folder=run_folder)
    return prepare(exp), run_folder, run_folder.rows[-1]


def module_of(setup: Any, model: Model) -> nn.Module:
    flat: FlatModule = setup.job.learner.copy()
    flat.load(model.params)
    flat.buffers = model.buffers
    return copy.deepcopy(flat.module).eval()


def miou(pairs: list[tuple[Tensor, Tensor]]) -> float:
    return mean_iou(sum(confusion(p, y, 9) for p, y in pairs))  # type: ignore[arg-type]


def predicted(
    module: nn.Module, data: ClientData, places: list[int], batch: int
) -> list[tuple[Tensor, Tensor]]:
    found = []
    for cut in torch.tensor(places).split(batch):
        one = data.batch(cut, torch.float64)
        with torch.no_grad():
            found.append((module(one.inputs).argmax(1), one.targets))
    return found


def places_of(domains: Domains, *values: str) -> list[int]:
    return [place for place, domain in enumerate(domains.each) if set(values) <= set(domain)]


def test_each_domain_has_its_scores() -> None:
    """FedAvg's one model: scores of all and of each town and weather, and the spread over
    town-and-weather."""
    setup, run_folder, row = outcome("fedavg")
    data, module = setup.fed.test, module_of(setup, run_folder.model)
    assert list(row["tests"]) == [
        "test/town0",
        "test/town1",
        "test/rain",
        "test/sun",
        "unseen_towns",
        "unseen_towns/rain",
        "unseen_towns/sun",
    ]
    assert row["miou"] == pytest.approx(miou(predicted(module, data, list(range(17)), 17)))
    for value in ("town0", "town1", "rain", "sun"):
        there = predicted(module, data, places_of(data.domains, value), 17)
        assert row["tests"][f"test/{value}"]["miou"] == pytest.approx(miou(there))
    finest = [
        miou(predicted(module, data, places_of(data.domains, town, weather), 17))
        for town in ("town0", "town1")
        for weather in ("sun", "rain")
    ]
    assert row["miou_std"] == pytest.approx(statistics.pstdev(finest))
    assert "miou_std" not in row["tests"]["test/rain"]


def with_statistics(setup: Any, model: Model, kept: list[dict[str, Tensor]]) -> nn.Module:
    """The server's model with the mean of clients' statistics."""
    mean = sum(one["statistics"] for one in kept) / len(kept)
    assert mean.shape == model.buffers.shape
    return module_of(setup, Model(model.params, mean))


def by_the_batch(setup: Any, model: Model) -> nn.Module:
    """The server's model with batch normalisation in training mode."""
    module = module_of(setup, model)
    module[1].train()  # type: ignore[index]
    return module


def test_silobn_tests_a_domain_with_the_statistics_of_its_client() -> None:
    """Client 3, sun in town 1, has never trained: what it has is unseen as yet, and so is town
    2."""
    setup, run_folder, row = outcome("silobn")
    data, pairs = setup.fed.test, []
    assert [setup.fed.domain(client)[:2] for client in range(4)] == [
        ("town0", "sun"),
        ("town1", "rain"),
        ("town0", "rain"),
        ("town1", "sun"),
    ]
    for client in (0, 1, 2):
        module = with_statistics(setup, run_folder.model, [run_folder.clients[client]["private"]])
        here = predicted(module, data, places_of(data.domains, *setup.fed.domain(client)), 17)
        if client == 2:
            expected = miou(here + pairs[:1])  # clients 0 and 2: town 0
            assert row["tests"]["test/town0"]["miou"] == pytest.approx(expected)
        pairs += here
    rest = places_of(data.domains, "town1", "sun")
    pairs += predicted(by_the_batch(setup, run_folder.model), data, rest, 8)
    assert row["miou"] == pytest.approx(miou(pairs))


def test_silobn_tests_unseen_domains_in_batches_of_eight_and_keeps_nothing() -> None:
    """Seventeen images: eight, and nine, for one alone would not do."""
    setup, run_folder, row = outcome("silobn")
    data, module = setup.fed.tests["unseen_towns"], by_the_batch(setup, run_folder.model)
    pairs = predicted(module, data, list(range(8)), 8) + predicted(
        module, data, list(range(8, 17)), 9
    )
    assert row["tests"]["unseen_towns"]["miou"] == pytest.approx(miou(pairs))
    assert torch.equal(run_folder.model.buffers, setup.job.learner.initial().buffers)


def test_several_clients_of_a_domain_give_the_mean_of_their_statistics() -> None:
    setup, run_folder, row = outcome("silobn", clients=8, cohorts=[(0, 4), (1, 2), (3, 5)])
    assert setup.fed.domain(0) == setup.fed.domain(4)
    kept = [run_folder.clients[client]["private"] for client in (0, 4)]
    data = setup.fed.test
    pairs = predicted(
        with_statistics(setup, run_folder.model, kept),
        data,
        places_of(data.domains, "town0", "sun"),
        17,
    )
    module = with_statistics(setup, run_folder.model, [run_folder.clients[2]["private"]])
    pairs += predicted(module, data, places_of(data.domains, "town0", "rain"), 17)
    assert row["tests"]["test/town0"]["miou"] == pytest.approx(miou(pairs))


def test_silobn_by_the_batch_everywhere() -> None:
    setup, run_folder, row = outcome("silobn(seen='batch')")
    data, module = setup.fed.test, by_the_batch(setup, run_folder.model)
    groups = [places_of(data.domains, *setup.fed.domain(client)) for client in range(4)]
    assert max(map(len, groups)) <= 8
    assert row["miou"] == pytest.approx(
        miou([pair for group in groups for pair in predicted(module, data, group, 8)])
    )


def test_fedbn_is_tested_on_seen_domains_only() -> None:
    setup, run_folder, row = outcome("fedbn")
    assert list(row["tests"]) == ["test/town0", "test/town1", "test/rain", "test/sun"]
    data, kept = setup.fed.test, run_folder.clients[1]["private"]
    params = run_folder.model.params.clone()
    params[6 * 27 + 6 : 6 * 27 + 6 + 12] = kept["params"]
    module = module_of(setup, Model(params, kept["statistics"]))
    pairs = predicted(module, data, places_of(data.domains, "town1", "rain"), 17)
    server = module_of(setup, run_folder.model)  # client 3 would start from what the server has
    pairs += predicted(server, data, places_of(data.domains, "town1", "sun"), 17)
    assert row["tests"]["test/town1"]["miou"] == pytest.approx(miou(pairs))


def test_one_image_alone_has_its_own_statistics() -> None:
    setup, run_folder, row = outcome("silobn", tests=1)
    [pair] = predicted(
        by_the_batch(setup, run_folder.model), setup.fed.tests["unseen_towns"], [0], 1
    )
    assert row["tests"]["unseen_towns"]["miou"] == pytest.approx(miou([pair]))


def test_fedbn_where_only_the_unseen_is_tested_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    exp = experiment("fedbn")
    elsewhere = exp.on.open(0).more["unseen_towns"]  # type: ignore[union-attr]
    opened = type(exp.on).open
    monkeypatch.setattr(
        type(exp.on), "open", lambda self, seed: _with_test(opened(self, seed), elsewhere)
    )
    with pytest.raises(
        SettingError, match=r"no test example is of a client's domain here\. Use silobn\(\)"
    ):
        prepare(exp)


def _with_test(fed: Any, test: ClientData) -> Any:
    from dataclasses import replace

    return replace(fed, test=test, more={})


def test_without_known_domains_silobn_takes_the_batch() -> None:
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(20, 3, 4, 4, generator=rng), torch.randint(9, (20, 4, 4), generator=rng)
    on = ff.tensors(x, y, x[:10], y[:10], clients=2, classes=9)
    exp = Experiment(
        method=parse("silobn", "method"),
        on=on,
        model=network,
        task=parse("segmentation()", "task"),
        rounds=1,
        local=LocalTraining(batch_size=5, lr=0.1),
        sampler=ClientSampler(clients=2),
        dtype="float64",
    )
    run_folder = RecordingRunFolder()
    train(exp, run_folder=run_folder)
    setup = prepare(exp)
    pairs = predicted(by_the_batch(setup, run_folder.model), setup.fed.test, list(range(10)), 8)
    assert run_folder.rows[-1]["miou"] == pytest.approx(miou(pairs))
    assert "tests" not in run_folder.rows[-1]
