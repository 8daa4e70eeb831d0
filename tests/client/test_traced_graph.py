"""Traced gradients of stacks: fewer calls, the same bits."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from experiments.small import experiment
from fedflat.client.learner import Learner
from fedflat.client.stacked_gradients import StackedGradients
from fedflat.client.traced_graph import NotTraceable, recorded, simplified
from fedflat.data.examples import Batch
from fedflat.execution.stacked import Stacked
from fedflat.experiments.progress import Progress
from fedflat.experiments.train import train
from fedflat.registry.specs import parse

OUTSIDE = torch.full((3,), 5.0)


@pytest.mark.parametrize("model", ["mlp([5])", "logistic()"])
@pytest.mark.parametrize("shared", [True, False])
def test_the_same_bits_with_fewer_calls(model: str, shared: bool) -> None:
    learner = Learner(parse(model, "model"), (4,), 3, seed=0)
    batched, start = StackedGradients(learner), learner.initial()
    w = start.params if shared else start.params + torch.randn(6, len(start.params))
    given = [w, start.buffers.expand(6, -1), torch.randn(6, 8, 4), torch.randint(3, (6, 8))]
    untraced = batched._untraced((shared, Batch(torch.empty(0), torch.empty(0))), ())
    traced = recorded(untraced, *given)
    before, expected = len(traced.graph.nodes), tree_leaves(untraced(*given))
    found = tree_leaves(simplified(traced)(*given))
    assert len(traced.graph.nodes) < 0.85 * before
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_the_gradients_of_a_stack_compile_into_one_graph() -> None:
    """Without a break, as a compiled or recorded step on a GPU needs."""
    learner = Learner(parse("mlp([5])", "model"), (4,), 3, seed=0)
    batched, start = StackedGradients(learner), learner.initial()
    w = start.params + torch.randn(6, len(start.params))
    given = [w, start.buffers.expand(6, -1), torch.randn(6, 8, 4), torch.randint(3, (6, 8))]
    gradients = batched._untraced((False, Batch(torch.empty(0), torch.empty(0))), ())
    compiled = torch.compile(gradients, backend="eager", fullgraph=True)
    assert torch.equal(compiled(*given)[0], gradients(*given)[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x * float(x[0]),
        lambda x: x + OUTSIDE,
    ],
    ids=["branch", "number", "outside"],
)
def test_what_another_call_may_do_otherwise_is_not_recorded(function: Any) -> None:
    with pytest.raises(NotTraceable):
        recorded(function, torch.ones(3))


def test_constants_are_part_of_the_graph() -> None:
    traced = simplified(
        recorded(lambda x: x + OUTSIDE + torch.tensor(2.0), torch.ones(3), constants=[OUTSIDE])
    )
    assert torch.equal(traced(torch.zeros(3)), torch.full((3,), 7.0))


def test_operations_that_write_keep_their_order() -> None:
    """Two equal expressions differ if a tensor was changed between them."""

    def function(x: Tensor) -> tuple[Any, ...]:
        y = x.clone()
        first = y.neg()
        y.add_(1)
        return first, y.neg()

    x = torch.ones(3)
    first, second = simplified(recorded(function, x))(x)
    assert first.tolist() == [-1] * 3
    assert second.tolist() == [-2] * 3


def test_a_stack_leaves_no_cycle_behind() -> None:
    """Otherwise its tensors stay in memory until Python looks for cycles."""
    found: list[int] = []

    def on_progress(progress: Progress) -> None:
        found.append(gc.collect())

    gc.disable()
    try:
        exp = experiment("fedavg", rounds=4)
        train(exp, executor=Stacked(1), on_progress=on_progress)
    finally:
        gc.enable()
    assert found[-1] == 0
