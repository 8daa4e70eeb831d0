"""How far one core is from its peak: operations a second in training, beside those of the best
matrix product."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode
from workloads import Workload

from fedflat.experiments.prepare import prepare

SIDE = 1024


class Product:
    """Takes turns with the participants: a matrix product on one thread, whose operations count as
    examples."""

    def __init__(self, size: str) -> None:
        self.matrix, self.times = torch.ones(SIDE, SIDE), 20 if size == "full" else 1

    def begin(self, rounds: int) -> None:
        """The work is done when the answer is asked for: nobody else is at work."""

    def end(self, rounds: int) -> dict[str, Any]:
        """So many rounds of products."""
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        for _ in range(rounds * self.times):
            self.matrix @ self.matrix
        torch.set_num_threads(before)
        return {"samples": rounds * self.times * 2 * SIDE**3}

    def close(self) -> None:
        """Nothing to end."""


def operations(workload: Workload) -> int:
    """Multiplications and additions of one example's forward and backward pass."""
    setup = prepare(workload.experiment())
    module, batch = (
        setup.job.learner.module(),
        setup.fed.data(0).batch(torch.arange(1), torch.float32),
    )
    with FlopCounterMode(display=False) as counter:
        cross_entropy(module(batch.inputs), batch.targets).backward()
    return int(counter.get_total_flops())
