"""Which category of a run a stack belongs to.

A name is ``module``, or ``module:function``, and stands for everything below it; of two that fit a
function, the longer counts. Functions without a category (those of torch, models, and of
``methods/``, whose files hold both halves of a method) count as part of their caller.
"""

from __future__ import annotations

from functools import cache

from fedflat.execution.profiling.sampler import Samples, Stack, StackFrame

START = "start and end"
OTHER = "other"

TABLE: dict[str, tuple[str, ...]] = {
    "local gradient": (
        "fedflat.client.learner",
        "fedflat.client.stacked_gradients",
        "fedflat.core.flat:FlatModule.gradient",
    ),
    "piece arithmetic": ("fedflat.client", "fedflat.kernels.memory_format"),
    "data": (
        "fedflat.data",
        "fedflat.server.client_registry",
        "fedflat.server.client_selection",
        "fedflat.client.local",
        "fedflat.client.training:_batches",
        "fedflat.client.stacked_training:Stack._batches",
        "fedflat.client.stacked_training:Stack._batch",
    ),
    "messages": (
        "fedflat.execution.workers:WorkerPool._hand",
        "fedflat.execution.pickling",
        "fedflat.execution.worker:answer",
    ),
    "aggregation": (
        "fedflat.core.messages",
        "fedflat.server",
        "fedflat.topologies.chain_exchange",
        "fedflat.topologies.async_exchange",
    ),
    "evaluation": ("fedflat.experiments.evaluator", "fedflat.client.evaluate"),
    "checkpoint": (
        "fedflat.experiments.run_folder.run_folder",
        "fedflat.experiments.run_folder.checkpoints",
        "fedflat.experiments.state:RunState",
        "fedflat.execution.client_states",
        "fedflat.execution.spill",
    ),
    "waiting": ("fedflat.execution.workers:WorkerPool.collect", "fedflat.execution.worker:_serve"),
    START: (
        "fedflat.execution.in_process:InProcess.open",
        "fedflat.execution.workers:Workers.open",
        "fedflat.execution.stacked:Stacked.open",
        "fedflat.experiments.run_folder.run_folder:DiskRunFolder.resume",
        "fedflat.experiments.run_folder.run_folder:DiskRunFolder.finish",
        "fedflat.experiments.train:initial_state",
        "fedflat.client.learner:Learner.initial",
        "fedflat.client.learner:Learner.copy",
        "fedflat.client.learner:Learner.module",
        "fedflat.data.k_means",
    ),
}
"""Categories and their functions; what is left over is `OTHER`."""

WHOLE = ("evaluation", "checkpoint", START)
"""Rooms that own whatever is called in them; of the others, the innermost counts."""

CATEGORIES = (*(category for category in TABLE if category != START), OTHER, START)

_CATEGORY_OF = {name: category for category, names in TABLE.items() for name in names}


def category_of(stack: Stack) -> str:
    """The category in which a stack ends."""
    found = [category for category in map(_category_of_frame, stack) if category is not None]
    return next(
        (category for category in found if category in WHOLE), found[-1] if found else OTHER
    )


@cache
def _category_of_frame(frame: StackFrame) -> str | None:
    name = str(frame)
    while name:
        if name in _CATEGORY_OF:
            return _CATEGORY_OF[name]
        name = name[: max(name.rfind("."), name.rfind(":"), 0)]
    return None


def seconds_in_categories(*seen: Samples) -> dict[str, float]:
    """Seconds in each category, of all of these together."""
    spent = dict.fromkeys(CATEGORIES, 0.0)
    for samples in seen:
        for stack, (_, seconds) in samples.stacks.items():
            spent[category_of(stack)] += seconds
    return spent
