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


TRAIN = ("fedflat.runs.train:train", "fedflat.server.piece:step", "fedflat.runs.exchange:Exchange.send")
FOLD = (*TRAIN, "fedflat.mail:fold", "fedflat.runs.exchange:Exchange._dispatch")
VISIT = (*FOLD, "fedflat.runs.executors:_Alone.visit", "fedflat.client.visit:visit", "fedflat.client.visit:walk")
CASES = [
    ((), OTHER),
    (("__main__:<module>", "torch:add"), OTHER),
    (("fedflat.runs.train:train",), OTHER),
    (TRAIN, "aggregation"),
    (FOLD, "aggregation"),
    ((*FOLD, "fedflat.mail:Reply.finite", "torch:isfinite"), "aggregation"),
    (VISIT, "piece arithmetic"),
    ((*VISIT, "fedflat.client.sharpness:Sam.gradient"), "piece arithmetic"),
    ((*VISIT, "mine:Piece.gradient"), "piece arithmetic"),
    ((*VISIT, "fedflat.methods.feddyn:Dual.gradient"), "piece arithmetic"),
    ((*TRAIN[:2], "fedflat.methods.feddyn:DualServer.exchange"), "aggregation"),
    ((*VISIT, "fedflat.client.sharpness:Sam.gradient", "fedflat.client.task:Oracle.__call__"), "local gradient"),
    ((*VISIT, "fedflat.client.task:Oracle.__call__", "fedflat.models.cnn:Cnn.forward"), "local gradient"),
    ((*VISIT, "fedflat.client.batched:Batched._untraced.<locals>.loss", "torch:relu"), "local gradient"),
    ((*VISIT, "fedflat.client.visit:_batches", "fedflat.client.local:Local.batches"), "data"),
    ((*VISIT, "fedflat.client.visit:_batches", "fedflat.data.examples:ClientData.batch"), "data"),
    ((*VISIT[:7], "fedflat.client.judge:judge", "fedflat.data.examples:ClientData.batch"), "evaluation"),
    (("fedflat.runs.train:train", "fedflat.runs.evaluate:score", "fedflat.flat:FlatModule.forward"), "evaluation"),
    (("fedflat.runs.book:FolderBook.checkpoint", "fedflat.runs.state:Run.groups"), "checkpoint"),
    (("fedflat.runs.train:train", "fedflat.runs.book:FolderBook.resume", "fedflat.runs.store:Store.read"), START),
    ((*FOLD, "fedflat.runs.executors:_Crew.visit", "multiprocessing.connection:wait"), "waiting"),
    ((*FOLD, "fedflat.runs.executors:_Crew.visit", "fedflat.runs.parcel:receive"), "messages"),
    (("fedflat.runs.train:train", "fedflat.runs.executors:Workers.open", "os:fork"), START),
    (("fedflat.runs.worker:work", "fedflat.runs.worker:_serve", "multiprocessing.connection:recv"), "waiting"),
    (("fedflat.runs.worker:_serve", "fedflat.runs.worker:answer", "pickle:dump"), "messages"),
    (("fedflat.runs.trainer:train", "fedflat.database:read"), OTHER),
]  # fmt: skip


@pytest.mark.parametrize(("names", "room"), CASES)
def test_rooms_of_stacks(names: tuple[str, ...], room: str) -> None:
    assert room_of(tuple(Frame(*name.split(":")) for name in names)) == room


def test_seconds_add_up() -> None:
    data, wait = (Frame("fedflat.data.examples", "x"),), (Frame("fedflat.runs.worker", "_serve"),)
    one = Samples({data: Seen(3, 0.5), wait: Seen(1, 0.25)}, 0.0)
    two = Samples({data: Seen(1, 2.0), (Frame("os", "read"),): Seen(1, 4.0)}, 0.0)
    spent = seconds_in_rooms(one, two)
    assert list(spent) == list(ROOMS)
    assert {room: seconds for room, seconds in spent.items() if seconds} == {"data": 2.5, "waiting": 0.25, OTHER: 4.0}
