"""The groups that a run would have, without the run: clients are asked what they are asked before round 0, no more."""

from __future__ import annotations

from functools import partial
from typing import Any

from fedflat.composition.method import Method
from fedflat.data.federation import DataSpec
from fedflat.data.opening import opened_once
from fedflat.folder.groups import Grouped
from fedflat.running.descriptions import described
from fedflat.running.groups import groups_of
from fedflat.running.prepare import make_ready
from fedflat.running.run_folder import RunBook
from fedflat.running.train import made_before
from fedflat.studies.api import experiment
from fedflat.studies.how import How
from fedflat.studies.study import Voice
from fedflat.topology.clusters import Clusters
from fedflat.topology.grouping.grouping import Grouping


@opened_once()
def groups_described(
    on: DataSpec, grouping: Grouping, seed: int, how: How, voice: Voice = Voice(), **settings: Any
) -> Grouped:  # fmt: skip
    """The groups of a data set's clients, as a run with this seed and these settings makes them.

    Neither the method nor the topology of the run matters: clients describe themselves by plain local steps from a
    fresh model, and are put together by the seed.
    """
    asking = Method(topology=Clusters(grouping), said=repr(grouping))
    ready = make_ready(experiment(asking, on, rounds=1, seed=seed, clients_per_round=1, **settings), how.device)
    for one in ready.describers:
        voice.note(f"  every client is asked for {one}: {one.reveals}")
    executor = how.settled(how.loads(ready), voice.note).make()
    book, tell = RunBook(), voice.announce(ready.exp, 1, 1)
    found = groups_of(described(ready, book, executor, partial(made_before, book, executor, tell, how.device), tell))
    assert found is not None
    return found
