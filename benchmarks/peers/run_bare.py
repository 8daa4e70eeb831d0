"""The limit L1: the same mini-batches in plain PyTorch. One process, PyTorch's own threads, nothing
federated."""

from __future__ import annotations

import sys

import in_torch
import torch
from same_work import LR, WEIGHT_DECAY, WORKLOADS
from torch.nn.functional import cross_entropy
from turns import Turns


def main(name: str) -> None:
    """Train one model on one cohort after the other."""
    workload = WORKLOADS[name]
    x, y = in_torch.tensors(workload)
    module = in_torch.model(workload)
    optimiser = torch.optim.SGD(module.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
    turns = Turns(f"one process, {torch.get_num_threads()} threads", "torch")
    go_on = True
    while go_on:
        for client in torch.randperm(workload.clients)[: workload.cohort]:
            for places in torch.randperm(workload.examples).split(workload.batch):
                batch = x[client, places], y[client, places]
                in_torch.step(
                    workload,
                    optimiser,
                    lambda: cross_entropy(module(batch[0]), batch[1]),  # noqa: B023
                )
        go_on = turns.round(
            in_torch.trained(workload), lambda: in_torch.probe_loss(module, workload)
        )


if __name__ == "__main__":
    main(sys.argv[1])
