"""Flower's client. Ray's processes import it, and keep the data and one module between two
messages."""

from __future__ import annotations

from functools import cache

import in_torch
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from same_work import LR, WEIGHT_DECAY, WORKLOADS, Workload
from torch import nn
from torch.nn.functional import cross_entropy

app = ClientApp()


tensors_of = cache(in_torch.tensors)


@cache
def module_of(workload: Workload) -> nn.Module:
    """The module of this process."""
    torch.set_num_threads(1)
    return in_torch.model(workload)


@app.train()
def train(message: Message, context: Context) -> Message:
    """One epoch over the client's examples."""
    workload = WORKLOADS[message.content["config"]["workload"]]
    client = context.node_config["partition-id"]
    x, y = (part[client] for part in tensors_of(workload))
    module = module_of(workload)
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser = torch.optim.SGD(module.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
    in_torch.trained(workload)
    for places in torch.randperm(workload.examples).split(workload.batch):
        batch = x[places], y[places]
        in_torch.step(workload, optimiser, lambda: cross_entropy(module(batch[0]), batch[1]))  # noqa: B023
    content = {
        "arrays": ArrayRecord(module.state_dict()),
        "metrics": MetricRecord({"num-examples": in_torch.trained(workload)}),
    }
    return Message(content=RecordDict(content), reply_to=message)
