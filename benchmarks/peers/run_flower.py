"""Flower's simulation: the strategy runs the rounds, and waits between them when it has
aggregated."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

import flower_client
import in_torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from same_work import WORKLOADS, Workload
from turns import Turns

RESOURCES = {
    "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    "init_args": {"num_cpus": 2, "log_to_driver": False},
}


class Over(Exception):
    """Nobody asks for more rounds."""


class Waiting(FedAvg):
    """FedAvg that waits between two rounds."""

    def __init__(self, turns: Turns, workload: Workload) -> None:
        super().__init__(
            fraction_train=workload.cohort / workload.clients,
            fraction_evaluate=0.0,
            min_train_nodes=workload.cohort,
            min_available_nodes=workload.clients,
        )
        self.turns, self.workload = turns, workload

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Aggregate, then wait."""
        replies = list(replies)
        samples = sum(
            int(reply.content["metrics"]["num-examples"])
            for reply in replies
            if reply.has_content()
        )
        arrays, metrics = super().aggregate_train(server_round, replies)

        def loss() -> float:
            module = in_torch.model(self.workload)
            module.load_state_dict(arrays.to_torch_state_dict())
            return in_torch.probe_loss(module, self.workload)

        if not self.turns.round(samples, loss):
            raise Over
        return arrays, metrics


def main(name: str) -> None:
    """Train until nobody asks for more."""
    workload = WORKLOADS[name]
    turns = Turns(
        "run_simulation on Ray, two processes of one thread (num_cpus=1)", "flwr", "ray", "torch"
    )
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        initial = ArrayRecord(in_torch.model(workload).state_dict())
        config = ConfigRecord({"workload": name})
        with suppress(Over):
            Waiting(turns, workload).start(grid, initial, num_rounds=10**9, train_config=config)

    run_simulation(server, flower_client.app, workload.clients, backend_config=RESOURCES)


if __name__ == "__main__":
    main(sys.argv[1])
