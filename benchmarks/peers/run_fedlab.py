"""FedLab: the standalone pipeline runs the rounds, and waits between them where it would
evaluate."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial

import in_torch
import torch
import torchvision_loads  # noqa: F401
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from fedlab.contrib.dataset.basic_dataset import FedDataset
from fedlab.core.standalone import StandalonePipeline
from same_work import LR, WEIGHT_DECAY, WORKLOADS, Workload
from torch import Tensor
from turns import Turns

Batch = tuple[Tensor, Tensor]


class Data(FedDataset):
    """The clients' examples; batches are cut from the tensors, which is faster than a
    DataLoader."""

    def __init__(self, workload: Workload) -> None:
        self.x, self.y = in_torch.tensors(workload)

    def get_dataloader(self, id: int, batch_size: int) -> Iterator[Batch]:
        """An epoch of one client."""
        for places in torch.randperm(self.y.shape[1]).split(batch_size):
            yield self.x[id, places], self.y[id, places]


class Trainer(SGDSerialClientTrainer):
    """FedLab's SGD has no weight decay."""

    workload: Workload

    def train(self, model_parameters: Tensor, train_loader: Iterable[Batch]) -> list[Tensor]:
        """As FedLab; with SAM, which it has not, another step."""
        if not self.workload.rho:
            found: list[Tensor] = super().train(model_parameters, train_loader)
            return found
        self.set_model(model_parameters)
        self._model.train()
        for x, y in train_loader:
            loss = partial(self._loss, x, y)
            in_torch.step(self.workload, self.optimizer, loss)
        return [self.model_parameters]

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        loss: Tensor = self.criterion(self._model(x), y)
        return loss

    def setup_optim(self, epochs: int, batch_size: int, lr: float) -> None:
        """As FedLab, with another optimiser."""
        super().setup_optim(epochs, batch_size, lr)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr, weight_decay=WEIGHT_DECAY)


class Pipeline(StandalonePipeline):
    """Waits between two rounds."""

    def __init__(
        self, handler: SyncServerHandler, trainer: Trainer, turns: Turns, workload: Workload
    ) -> None:
        super().__init__(handler, trainer)
        self.turns, self.workload = turns, workload

    def evaluate(self) -> None:
        """Wait, or stop."""

        def loss() -> float:
            return in_torch.probe_loss(self.handler.model, self.workload)

        if not self.turns.round(in_torch.trained(self.workload), loss):
            self.handler.global_round = 0


class Silence:
    """In place of a line for every client."""

    def info(self, text: str) -> None:
        """Nothing."""


def main(name: str) -> None:
    """Train until nobody asks for more."""
    workload = WORKLOADS[name]
    torch.set_num_threads(in_torch.threads(workload))
    share = workload.cohort / workload.clients
    handler = SyncServerHandler(
        in_torch.model(workload), global_round=10**9, sample_ratio=share, logger=Silence()
    )
    trainer = Trainer(in_torch.model(workload), workload.clients, logger=Silence())
    trainer.workload = workload
    trainer.setup_dataset(Data(workload))
    trainer.setup_optim(1, workload.batch, LR)
    setting = (
        f"StandalonePipeline, serial trainer, one process of {torch.get_num_threads()} threads"
    )
    Pipeline(handler, trainer, Turns(setting, "fedlab", "torch"), workload).main()


if __name__ == "__main__":
    main(sys.argv[1])
