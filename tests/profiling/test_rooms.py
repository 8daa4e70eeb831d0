"""Every name in the table of rooms is there, and stacks end up where they belong."""

from __future__ import annotations

import importlib
from functools import reduce

import pytest

from fedflat.profiling.rooms import OTHER, ROOMS, START, TABLE, WHOLE, room_of, seconds_in_rooms
from fedflat.profiling.sampler import Frame, Samples, Seen

NAMES = [name for names in TABLE.values() for name in names]


@pytest.mark.parametrize("name", NAMES)
def test_the_name_is_still_there(name: str) -> None:
    module, _, path = name.partition(":")
    reduce(getattr, filter(None, path.split(".")), importlib.import_module(module))


def test_every_name_has_one_room() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert set(ROOMS) == {*TABLE, OTHER}
    assert set(WHOLE) <= set(TABLE)


TRAIN = ("fedflat.running.train:train", "fedflat.server.piece:step", "fedflat.running.exchange:Exchange.send")
FOLD = (*TRAIN, "fedflat.engine.mail:fold", "fedflat.running.exchange:Exchange._dispatch")
VISIT = (*FOLD, "fedflat.executors.in_process:_Alone.visit", "fedflat.client.visit:visit", "fedflat.client.visit:walk")
CASES = [
    ((), OTHER),
    (("__main__:<module>", "torch:add"), OTHER),
    (("fedflat.running.train:train",), OTHER),
    (TRAIN, "aggregation"),
    (FOLD, "aggregation"),
    ((*FOLD, "fedflat.engine.mail:Reply.finite", "torch:isfinite"), "aggregation"),
    (VISIT, "piece arithmetic"),
    ((*VISIT, "fedflat.client.sharpness:Sam.gradient"), "piece arithmetic"),
    ((*VISIT, "mine:Piece.gradient"), "piece arithmetic"),
    ((*VISIT, "fedflat.methods.feddyn:Dual.gradient"), "piece arithmetic"),
    ((*TRAIN[:2], "fedflat.methods.feddyn:DualServer.exchange"), "aggregation"),
    ((*VISIT, "fedflat.client.sharpness:Sam.gradient", "fedflat.client.learner:Oracle.__call__"), "local gradient"),
    ((*VISIT, "fedflat.client.learner:Oracle.__call__", "fedflat.models.cnn:Cnn.forward"), "local gradient"),
    ((*VISIT, "fedflat.client.batched:Batched._untraced.<locals>.loss", "torch:relu"), "local gradient"),
    ((*VISIT, "fedflat.client.visit:_batches", "fedflat.client.local:Local.batches"), "data"),
    ((*VISIT, "fedflat.client.visit:_batches", "fedflat.data.examples:ClientData.batch"), "data"),
    ((*VISIT[:7], "fedflat.client.judge:judge", "fedflat.data.examples:ClientData.batch"), "evaluation"),
    ((TRAIN[0], "fedflat.running.evaluate:score", "fedflat.engine.flat:FlatModule.forward"), "evaluation"),
    (("fedflat.running.run_folder:FolderBook.checkpoint", "fedflat.running.state:Run.groups"), "checkpoint"),
    ((TRAIN[0], "fedflat.running.run_folder:FolderBook.resume", "fedflat.folder.checkpoints:Store.read"), START),
    ((TRAIN[0], "fedflat.running.reporting:named_models", "fedflat.client.learner:Learner.another"), START),
    ((*FOLD, "fedflat.executors.workers:_Crew.visit", "multiprocessing.connection:wait"), "waiting"),
    ((*FOLD, "fedflat.executors.workers:_Crew.visit", "fedflat.executors.parcel:receive"), "messages"),
    (("fedflat.running.train:train", "fedflat.executors.workers:Workers.open", "os:fork"), START),
    (("fedflat.topology.grouping.alike:Alike.assign", "fedflat.data.k_means:k_means", "sklearn.cluster:fit"), START),
    (("fedflat.executors.worker:_serve", "multiprocessing.connection:recv"), "waiting"),
    (("fedflat.executors.worker:_serve", "fedflat.executors.worker:answer", "pickle:dump"), "messages"),
    (("fedflat.running.trainer:train", "fedflat.database:read"), OTHER),
]  # fmt: skip


@pytest.mark.parametrize(("names", "room"), CASES)
def test_rooms_of_stacks(names: tuple[str, ...], room: str) -> None:
    assert room_of(tuple(Frame(*name.split(":")) for name in names)) == room


def test_seconds_add_up() -> None:
    data, wait = (Frame("fedflat.data.examples", "x"),), (Frame("fedflat.executors.worker", "_serve"),)
    one = Samples({data: Seen(3, 0.5), wait: Seen(1, 0.25)}, 0.0)
    two = Samples({data: Seen(1, 2.0), (Frame("os", "read"),): Seen(1, 4.0)}, 0.0)
    spent = seconds_in_rooms(one, two)
    assert list(spent) == list(ROOMS)
    assert {room: seconds for room, seconds in spent.items() if seconds} == {"data": 2.5, "waiting": 0.25, OTHER: 4.0}
