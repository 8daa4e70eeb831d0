"""fluke: `FedAVG.run` runs the rounds, and waits between them in an observer."""

from __future__ import annotations

import sys

import in_torch
import torch
import torchvision_loads  # noqa: F401
from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.algorithms.fedsam import FedSAM
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader
from fluke.server import EarlyStopping
from fluke.utils import FederationObserver
from same_work import CLASSES, LR, WEIGHT_DECAY, WORKLOADS, Workload
from turns import Turns


class Wait(FederationObserver):
    """Between two rounds."""

    def __init__(self, turns: Turns, algorithm: FedAVG | FedSAM, workload: Workload) -> None:
        self.turns, self.algorithm, self.workload = turns, algorithm, workload

    def end_round(self, round: int) -> None:
        """Wait, or stop."""

        def loss() -> float:
            return in_torch.probe_loss(self.algorithm.server.model, self.workload)

        if not self.turns.round(in_torch.trained(self.workload), loss):
            raise EarlyStopping(round)


def main(name: str) -> None:
    """Train until nobody asks for more."""
    workload = WORKLOADS[name]
    torch.set_num_threads(in_torch.threads(workload))
    env = FlukeENV()
    env.set_seed(0)
    env.set_device("cpu")
    env.set_inmemory(True)
    env.set_eval_cfg(pre_fit=False, post_fit=False, server=False, locals=False)
    clients = [
        FastDataLoader(x, y, num_labels=CLASSES, batch_size=workload.batch, shuffle=True)
        for x, y in zip(*in_torch.tensors(workload), strict=True)
    ]
    local = DDict(
        batch_size=workload.batch,
        local_epochs=1,
        loss="CrossEntropyLoss",
        optimizer=DDict(name="SGD", lr=LR, weight_decay=WEIGHT_DECAY),
        scheduler=DDict(name="StepLR", step_size=1, gamma=1.0),
    )
    if workload.rho:
        local.update(rho=workload.rho)
    algorithm = (FedSAM if workload.rho else FedAVG)(
        n_clients=workload.clients,
        data_splitter=DataSplitter(
            DummyDataContainer(clients, [None] * workload.clients, None, CLASSES),
            distribution="iid",
        ),
        hyper_params=DDict(
            client=local, server=DDict(weighted=True), model=in_torch.model(workload)
        ),
    )
    setting = f"FastDataLoader, in memory, no evaluation, one process of {torch.get_num_threads()} threads"
    algorithm.set_callbacks(Wait(Turns(setting, "fluke-fl", "torch"), algorithm, workload))
    algorithm.run(n_rounds=10**9, eligible_perc=workload.cohort / workload.clients)


if __name__ == "__main__":
    main(sys.argv[1])
