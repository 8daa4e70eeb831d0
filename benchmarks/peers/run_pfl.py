"""pfl: `FederatedAveraging.run` runs the rounds, and waits between them in a callback.

In two processes both keep the model, and the first one answers: it is told what the other has
trained on, and tells it whether to go on.
"""

from __future__ import annotations

import sys
from typing import Any

import in_torch
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.internal.ops.selector import get_framework_module
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from same_work import LR, WEIGHT_DECAY, WORKLOADS, Workload
from torch import Tensor, distributed, nn
from torch.nn.functional import cross_entropy
from turns import Turns


class Module(nn.Module):
    """The model as pfl wants it: with its loss."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def loss(self, x: Tensor, y: Tensor, is_eval: bool = False) -> Tensor:
        """Of one batch."""
        return cross_entropy(self.net(x), y)

    def metrics(self, x: Tensor, y: Tensor, is_eval: bool = False) -> dict[str, Any]:
        """None: nothing is evaluated."""
        return {}


class SamModel(PyTorchModel):
    """Makes steps of SAM, which pfl has not."""

    workload: Workload

    def do_multiple_epochs_of(
        self, user_dataset: Any, train_params: Any, train_step_fn: Any, **more: Any
    ) -> Any:
        """As pfl, with another step."""

        def sam(module: Module, optimiser: torch.optim.Optimizer, batch: Any, *_: Any) -> None:
            in_torch.step(self.workload, optimiser, lambda: module.loss(*batch))

        return super().do_multiple_epochs_of(user_dataset, train_params, sam, **more)


class Wait(TrainingProcessCallback):
    """Between two rounds."""

    def __init__(self, turns: Turns | None, net: nn.Module, workload: Workload) -> None:
        self.turns, self.net, self.workload = turns, net, workload

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Whether to stop."""
        samples = torch.tensor(in_torch.trained(self.workload))
        go_on = torch.tensor(True)
        if distributed.is_initialized():
            distributed.reduce(samples, 0)
        if self.turns is not None:
            go_on = torch.tensor(
                self.turns.round(int(samples), lambda: in_torch.probe_loss(self.net, self.workload))
            )
        if distributed.is_initialized():
            distributed.broadcast(go_on, 0)
        return not go_on, Metrics()


def main(name: str) -> None:
    """Train until nobody asks for more."""
    workload = WORKLOADS[name]
    world = get_framework_module().distributed
    torch.set_num_threads(1 if world.world_size > 1 else in_torch.threads(workload))
    x, y = in_torch.tensors(workload)

    def user(client: int) -> Dataset:
        order = torch.randperm(workload.examples)
        return Dataset([x[client, order], y[client, order]], user_id=str(client))

    net = in_torch.model(workload)
    module = Module(net)
    model = (SamModel if workload.rho else PyTorchModel)(
        module,
        lambda params, lr: torch.optim.SGD(params, lr=lr, weight_decay=WEIGHT_DECAY),
        torch.optim.SGD(module.parameters(), lr=1.0),
    )
    model.workload = workload
    setting = f"SimulatedBackend, {world.world_size} processes of {torch.get_num_threads()} threads"
    turns = Turns(setting, "pfl", "torch") if world.global_rank == 0 else None
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=10**9,
            evaluation_frequency=10**9,
            train_cohort_size=workload.cohort,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(
            training_data=FederatedDataset(
                user, get_user_sampler("random", range(workload.clients))
            ),
            val_data=None,
        ),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=LR, local_batch_size=workload.batch
        ),
        callbacks=[Wait(turns, net, workload)],
    )


if __name__ == "__main__":
    main(sys.argv[1])
