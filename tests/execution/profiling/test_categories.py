"""Every name in the table of categories is there, and stacks end up where they belong."""

from __future__ import annotations

import importlib
from functools import reduce

import pytest

from fedflat.execution.profiling.categories import (
    CATEGORIES,
    OTHER,
    START,
    TABLE,
    WHOLE,
    category_of,
    seconds_in_categories,
)
from fedflat.execution.profiling.sampler import SampleCount, Samples, StackFrame

NAMES = [name for names in TABLE.values() for name in names]


@pytest.mark.parametrize("name", NAMES)
def test_the_name_is_still_there(name: str) -> None:
    module, _, path = name.partition(":")
    reduce(getattr, filter(None, path.split(".")), importlib.import_module(module))


def test_every_name_has_one_room() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert set(CATEGORIES) == {*TABLE, OTHER}
    assert set(WHOLE) <= set(TABLE)


TRAIN = (
    "fedflat.experiments.train:train",
    "fedflat.server.step:server_step",
    "fedflat.experiments.exchange:Exchange.send",
)
FOLD = (
    *TRAIN,
    "fedflat.server.step:aggregate",
    "fedflat.experiments.exchange:Exchange._dispatch",
)
LOCAL_TRAINING = (
    *FOLD,
    "fedflat.execution.in_process:InProcessPool.run",
    "fedflat.client.training:run_client",
    "fedflat.client.training:local_train",
)
CASES = [
    ((), OTHER),
    (("__main__:<module>", "torch:add"), OTHER),
    (("fedflat.experiments.train:train",), OTHER),
    (TRAIN, "aggregation"),
    (FOLD, "aggregation"),
    ((*FOLD, "fedflat.core.messages:Reply.finite", "torch:isfinite"), "aggregation"),
    (LOCAL_TRAINING, "piece arithmetic"),
    ((*LOCAL_TRAINING, "fedflat.client.sharpness:Sam.gradient"), "piece arithmetic"),
    ((*LOCAL_TRAINING, "mine:Piece.gradient"), "piece arithmetic"),
    ((*LOCAL_TRAINING, "fedflat.methods.feddyn:Dual.gradient"), "piece arithmetic"),
    ((*TRAIN[:2], "fedflat.methods.feddyn:DualServer.exchange"), "aggregation"),
    (
        (
            *LOCAL_TRAINING,
            "fedflat.client.sharpness:Sam.gradient",
            "fedflat.client.learner:Oracle.__call__",
        ),
        "local gradient",
    ),
    (
        (
            *LOCAL_TRAINING,
            "fedflat.client.learner:Oracle.__call__",
            "fedflat.models.cnn:Cnn.forward",
        ),
        "local gradient",
    ),
    (
        (
            *LOCAL_TRAINING,
            "fedflat.client.stacked_gradients:StackedGradients._untraced.<locals>.loss",
            "torch:relu",
        ),
        "local gradient",
    ),
    (
        (
            *LOCAL_TRAINING,
            "fedflat.client.training:_batches",
            "fedflat.client.local:LocalTraining.batches",
        ),
        "data",
    ),
    (
        (
            *LOCAL_TRAINING,
            "fedflat.client.training:_batches",
            "fedflat.data.examples:ClientData.batch",
        ),
        "data",
    ),
    (
        (
            *LOCAL_TRAINING[:7],
            "fedflat.client.evaluate:judge",
            "fedflat.data.examples:ClientData.batch",
        ),
        "evaluation",
    ),
    (
        (TRAIN[0], "fedflat.experiments.evaluator:score", "fedflat.core.flat:FlatModule.forward"),
        "evaluation",
    ),
    (
        (
            "fedflat.experiments.run_folder.run_folder:DiskRunFolder.checkpoint",
            "fedflat.experiments.state:RunState.groups",
        ),
        "checkpoint",
    ),
    (
        (
            TRAIN[0],
            "fedflat.experiments.run_folder.run_folder:DiskRunFolder.resume",
            "fedflat.experiments.run_folder.checkpoints:Store.read",
        ),
        START,
    ),
    (
        (
            TRAIN[0],
            "fedflat.experiments.model_selection:final_weights",
            "fedflat.client.learner:Learner.copy",
        ),
        START,
    ),
    (
        (*FOLD, "fedflat.execution.workers:WorkerPool.collect", "multiprocessing.connection:wait"),
        "waiting",
    ),
    (
        (
            *FOLD,
            "fedflat.execution.workers:WorkerPool.collect",
            "fedflat.execution.pickling:receive",
        ),
        "messages",
    ),
    (
        ("fedflat.experiments.train:train", "fedflat.execution.workers:Workers.open", "os:fork"),
        START,
    ),
    (
        (
            "fedflat.topologies.groupings.alike:Alike.assign",
            "fedflat.data.k_means:k_means",
            "sklearn.cluster:fit",
        ),
        START,
    ),
    (("fedflat.execution.worker:_serve", "multiprocessing.connection:recv"), "waiting"),
    (
        ("fedflat.execution.worker:_serve", "fedflat.execution.worker:answer", "pickle:dump"),
        "messages",
    ),
    (("fedflat.experiments.trainer:train", "fedflat.database:read"), OTHER),
]


@pytest.mark.parametrize(("names", "category"), CASES)
def test_categories_of_stacks(names: tuple[str, ...], category: str) -> None:
    assert category_of(tuple(StackFrame(*name.split(":")) for name in names)) == category


def test_seconds_add_up() -> None:
    data, wait = (
        (StackFrame("fedflat.data.examples", "x"),),
        (StackFrame("fedflat.execution.worker", "_serve"),),
    )
    one = Samples({data: SampleCount(3, 0.5), wait: SampleCount(1, 0.25)}, 0.0)
    two = Samples(
        {data: SampleCount(1, 2.0), (StackFrame("os", "read"),): SampleCount(1, 4.0)}, 0.0
    )
    spent = seconds_in_categories(one, two)
    assert list(spent) == list(CATEGORIES)
    assert {category: seconds for category, seconds in spent.items() if seconds} == {
        "data": 2.5,
        "waiting": 0.25,
        OTHER: 4.0,
    }
