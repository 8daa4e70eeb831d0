"""A whole local step compiles into one graph, as `torch.compile` and recorded graphs of a GPU need.

A graph is broken by a number that Python reads, or by a branch on one. Terms that observe layers with
hooks (`man`, `moon`, `feddecorr`, `fedcr`) break it in every step: the compiler does not trace the registration
of a hook. Compiled code is not used in runs. ``trace_autograd_ops`` lets the compiler see `Tensor.backward`.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fedflat.client.training import Request, local_train, open_context
from fedflat.core.messages import Broadcast
from fedflat.experiments.api import experiment
from fedflat.experiments.prepare import prepare

SETTINGS: dict[str, Any] = {
    "on": "digits(lda(0.5), clients=5)",
    "model": "mlp([8])",
    "rounds": 1,
    "clients_per_round": 2,
    "batch_size": 4,
    "momentum": 0.9,
    "weight_decay": 0.01,
    "clip": 0.5,
}


@pytest.mark.parametrize("method", ["fedavg", "fedsam", "fedprox(mu=0.1)"])
def test_two_steps_are_one_graph_with_the_same_bits(method: str) -> None:
    """Gradient, the method's pieces, clipping, weight decay, momentum and the step itself."""
    setup = prepare(experiment(method, **SETTINGS))
    job, data, learner = setup.job, setup.fed.data(0), setup.job.learner
    start = learner.initial()
    request = Request(0, Broadcast(0, start.params, start.buffers, 0.1), {})
    batches = [data.batch(torch.arange(4) + first, learner.dtype) for first in (0, 4)]
    learner.flat.train()

    def steps(w: Tensor, buffers: Tensor) -> tuple[Tensor, Tensor]:
        stack = [(piece, open_context(job, request, data, piece)) for piece in job.pieces]
        result = local_train(stack, learner, w, buffers, 0.1, batches)
        return result.returned, result.loss

    expected = steps(start.params, start.buffers)
    torch.compiler.reset()
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        compiled = torch.compile(steps, backend="eager", fullgraph=True)
        found = compiled(start.params, start.buffers)
    assert not torch.equal(found[0], start.params)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def test_the_check_can_fail() -> None:
    def branching(w: Tensor) -> Tensor:
        return w if bool(w.sum() > 0) else -w

    torch.compiler.reset()
    with pytest.raises(torch._dynamo.exc.UserError, match="data-dependent"):
        torch.compile(branching, backend="eager", fullgraph=True)(torch.ones(2))
