"""Which room of a run a stack belongs to.

A name is ``module``, or ``module:function``, and stands for everything below it; of two that fit a function, the longer
counts. Functions without a room (those of torch, models, and of ``methods/``, whose files hold both halves of a
method) are in the room of whoever called them.
"""

from __future__ import annotations

from functools import cache

from fedflat.profiling.sampler import Frame, Samples, Stack

START = "start and end"
OTHER = "other"

TABLE: dict[str, tuple[str, ...]] = {
    "local gradient": ("fedflat.client.learner", "fedflat.client.batched", "fedflat.engine.flat:FlatModule.gradient"),
    "piece arithmetic": ("fedflat.client",),
    "data": (
        "fedflat.data", "fedflat.client.local", "fedflat.client.visit:_batches", "fedflat.client.stack:Stack._batches",
        "fedflat.client.stack:Stack._batch",
    ),
    "messages": (
        "fedflat.executors.workers:_Crew._hand", "fedflat.executors.parcel", "fedflat.executors.worker:answer",
    ),
    "aggregation": ("fedflat.engine.mail", "fedflat.server", "fedflat.running.exchange", "fedflat.running.reception"),
    "evaluation": ("fedflat.running.evaluate", "fedflat.client.judge"),
    "checkpoint": (
        "fedflat.running.run_folder", "fedflat.folder.checkpoints", "fedflat.running.state:Run",
        "fedflat.executors.memories", "fedflat.executors.spill",
    ),
    "waiting": ("fedflat.executors.workers:_Crew.visit", "fedflat.executors.worker:_serve"),
    START: (
        "fedflat.executors.in_process:InProcess.open", "fedflat.executors.workers:Workers.open",
        "fedflat.executors.rows:Stacked.open", "fedflat.running.run_folder:FolderBook.resume",
        "fedflat.running.run_folder:FolderBook.finish", "fedflat.running.train:beginning",
        "fedflat.client.learner:Learner.initial", "fedflat.client.learner:Learner.another",
        "fedflat.client.learner:Learner.module", "fedflat.data.k_means",
    ),
}  # fmt: skip
"""Rooms and the functions in them; what is left over is `OTHER`."""

WHOLE = ("evaluation", "checkpoint", START)
"""Rooms that own whatever is called in them; of the others, the innermost counts."""

ROOMS = (*(room for room in TABLE if room != START), OTHER, START)

_ROOM_OF = {name: room for room, names in TABLE.items() for name in names}


def room_of(stack: Stack) -> str:
    """The room in which a stack ends."""
    found = [room for room in map(_room_of_frame, stack) if room is not None]
    return next((room for room in found if room in WHOLE), found[-1] if found else OTHER)


@cache
def _room_of_frame(frame: Frame) -> str | None:
    name = str(frame)
    while name:
        if name in _ROOM_OF:
            return _ROOM_OF[name]
        name = name[: max(name.rfind("."), name.rfind(":"), 0)]
    return None


def seconds_in_rooms(*seen: Samples) -> dict[str, float]:
    """Seconds in each room, of all of these together."""
    spent = dict.fromkeys(ROOMS, 0.0)
    for samples in seen:
        for stack, (_, seconds) in samples.stacks.items():
            spent[room_of(stack)] += seconds
    return spent
