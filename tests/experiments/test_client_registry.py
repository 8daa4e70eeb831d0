"""A server runs with a client registry and never opens clients' data."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.small import SIZES, experiment, timeless
from fedflat.client.local import LocalTraining
from fedflat.client.training import ClientJob
from fedflat.data.examples import ClientData
from fedflat.data.federation import DataSpec, Federation, PartitionedFederation
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import FedflatError, SettingError
from fedflat.execution.client_pool import ClientPool, Source
from fedflat.execution.in_process import InProcess
from fedflat.execution.workers import Workers
from fedflat.experiments.execution_config import RunLoad
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.population import open_registry
from fedflat.experiments.prepare import prepare
from fedflat.experiments.recording import recording_callback
from fedflat.experiments.run_folder.run_folder import DiskRunFolder
from fedflat.experiments.train import train
from fedflat.server.client_selection import ClientSampler


@dataclass(frozen=True)
class Remote(PartitionedFederation):
    """What clients hold can be opened in worker processes only."""

    here = False

    def data(self, client: int) -> ClientData:
        if multiprocessing.parent_process() is None:
            raise PermissionError("the server opened a client's data")
        return super().data(client)


def given() -> DataSpec:
    rng = torch.Generator().manual_seed(0)
    made = []
    for size in SIZES:
        y = torch.arange(2 * size) % 3
        made.append((torch.randn(2 * size, 4, generator=rng) + y.view(-1, 1), y))
    return clients_of(made, test=made[2], classes=3, split=0.5)


@dataclass(frozen=True, repr=False)
class Elsewhere(DataSpec):
    """The same clients, elsewhere."""

    def open(self, seed: int) -> Federation:
        fed = given().open(seed)
        assert isinstance(fed, PartitionedFederation)
        return Remote(fed.train, fed.test, fed.parts, fed.held_out)


def both(method: str, **more: Any) -> tuple[Experiment, Experiment]:
    settings = {"sampler": ClientSampler(clients=3, kind="by_size"), "rounds": 2, **more}
    return experiment(method, on=given(), **settings), experiment(
        method, on=Elsewhere(), **settings
    )


@pytest.mark.usefixtures("warm_processes")
def test_a_run_without_opening_any_clients_data(tmp_path: Path) -> None:
    """Sampling by size, weights, own tests of two models, personal models, checkpoints: the same
    numbers."""
    here, there = both("feddyn(alpha=0.1, by_size=True) + personal() + ema()")
    expected = train(here, executor=InProcess(1))
    setup = prepare(there)
    assert RunLoad.of(setup).seconds > 0
    run_folder = DiskRunFolder.create(tmp_path / "run", there.texts(), {})
    result = train(
        setup,
        executor=Workers(1),
        run_folder=run_folder,
        callbacks=recording_callback("drift,norms"),
    )
    run_folder.close()
    assert torch.equal(result.model.params, expected.model.params)
    assert timeless(result.rows) == timeless(expected.rows)
    assert all(
        "clients" in scores
        for row in result.rows
        if "models" in row
        for scores in row["models"].values()
    )


def test_what_looks_into_clients_data_is_refused_or_left_out() -> None:
    _, there = both("fedavg()")
    setup = prepare(there)
    for name in ("features", "client_lambda"):
        with pytest.raises(
            SettingError, match=f"record: {name} needs the clients' data, which are not on this"
        ):
            recording_callback(name)(setup, lambda text: None)
    recording_callback("all")(setup, lambda text: None)


def test_batches_that_were_given_are_checked_by_size() -> None:
    _, there = both("fedavg()", sampler=ClientSampler(cohorts=[[0], [1]]))
    orders = [{0: [[0, 5]]}, {1: [[0, 9]]}]
    with pytest.raises(SettingError, match="round 2, client 1 must be lists of places from 0 to 8"):
        prepare(replace(there, local=LocalTraining(orders=orders)))


class Lending:
    """Runs the same clients in this process where their data can be opened."""

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        with InProcess(1).open(job, given().open(0), source) as pool:
            yield pool


def test_a_bad_reply_is_reported_without_a_look_at_the_data() -> None:
    _, there = both("fedavg()", local=LocalTraining(batch_size=4, lr=1e30))
    with pytest.raises(FedflatError, match=r"NaN or infinite; where it began is not known here"):
        train(there, executor=Lending())


def test_the_registry_of_a_federation() -> None:
    fed = Elsewhere().open(0)
    registry = open_registry(fed)
    assert list(registry.clients) == [0, 1, 2, 3, 4]
    assert (
        [registry.size(client) for client in registry.clients]
        == list(registry.sizes())
        == list(SIZES)
    )
    assert registry.clients_have_tests
    assert not open_registry(experiment().on.open(0)).clients_have_tests
