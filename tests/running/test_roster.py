"""A server runs without ever opening what clients hold: others visit them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedflat.client.local import Local
from fedflat.client.visit import ClientJob
from fedflat.data.examples import ClientData
from fedflat.data.federation import DataSpec, Dealt, Federation
from fedflat.data.roster import Roster
from fedflat.data.sampling import Sampler
from fedflat.data.sets.given import clients_of
from fedflat.errors import FedflatError, SettingError
from fedflat.executors.crew import Crew, Source
from fedflat.executors.in_process import InProcess
from fedflat.executors.workers import Workers
from fedflat.observe import as_listener
from fedflat.running.auto import Load
from fedflat.running.experiment import Experiment
from fedflat.running.prepare import make_ready
from fedflat.running.run_folder import FolderBook
from fedflat.running.train import train
from running.small import SIZES, experiment, timeless


@dataclass(frozen=True)
class Remote(Dealt):
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
        assert isinstance(fed, Dealt)
        return Remote(fed.train, fed.test, fed.parts, fed.held_out)


def both(method: str, **more: Any) -> tuple[Experiment, Experiment]:
    settings = {"sampler": Sampler(clients=3, kind="by_size"), "rounds": 2, **more}
    return experiment(method, on=given(), **settings), experiment(method, on=Elsewhere(), **settings)


def test_a_run_without_opening_any_clients_data(tmp_path: Path) -> None:
    """Sampling by size, weights, own tests of two models, personal models, checkpoints: the same numbers."""
    here, there = both("feddyn(alpha=0.1, by_size=True) + personal() + ema()")
    expected = train(here, executor=InProcess(1))
    ready = make_ready(there)
    assert Load.of(ready).seconds > 0
    book = FolderBook.create(tmp_path / "run", there.as_json(), {})
    result = train(ready, executor=Workers(1), book=book, listening=as_listener("drift,norms"))
    book.close()
    assert torch.equal(result.model.params, expected.model.params)
    assert timeless(result.rows) == timeless(expected.rows)
    assert all("clients" in scores for row in result.rows if "models" in row for scores in row["models"].values())


def test_what_looks_into_clients_data_is_refused_or_left_out() -> None:
    _, there = both("fedavg()")
    ready = make_ready(there)
    for name in ("features", "client_lambda"):
        with pytest.raises(SettingError, match=f"watch: {name} looks at what clients hold, and that is not here"):
            as_listener(name)(ready, lambda text: None)
    as_listener("all")(ready, lambda text: None)


def test_batches_that_were_given_are_checked_by_size() -> None:
    _, there = both("fedavg()", sampler=Sampler(cohorts=[[0], [1]]))
    orders = [{0: [[0, 5]]}, {1: [[0, 9]]}]
    with pytest.raises(SettingError, match="round 1, client 1 must be lists of places from 0 to 8"):
        make_ready(replace(there, local=Local(orders=orders)))


class Lending:
    """Visits here, to the same clients where their data can be opened."""

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[Crew]:
        with InProcess(1).open(job, given().open(0), source) as crew:
            yield crew


def test_a_bad_reply_is_told_without_a_look_at_the_data() -> None:
    _, there = both("fedavg()", local=Local(batch_size=4, lr=1e30))
    with pytest.raises(FedflatError, match=r"NaN or infinite; where it began is not known here"):
        train(there, executor=Lending())


def test_the_roster_of_a_federation() -> None:
    fed = Elsewhere().open(0)
    roster = Roster.of(fed)
    assert list(roster.clients) == [0, 1, 2, 3, 4]
    assert [roster.size(client) for client in roster.clients] == list(roster.sizes()) == list(SIZES)
    assert roster.keep_tests
    assert not Roster.of(experiment().on.open(0)).keep_tests
