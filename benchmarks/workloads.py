"""What `bench` times: clients, examples, model and local steps.

    w1       the papers' CNN on 100 clients of 500 images of 3x32x32, 10 clients a round, batches of 64
    w1-aug   the same with crops and flips
    w2       w1 with SAM
    w1-r     w1 with ResNet-20 and group normalisation
    w3       an MLP 64-32-10 on 1,000 clients of 20 examples, 100 clients a round, one batch each
    w4       w3 with clients made on demand: 1,000 or 1,000,000 of them
    w5       FedDyn on w1's CNN with 2,000 clients, each remembering a vector of the model's size

Images are noise: only the time counts. Every client trains for one epoch. In the size "small" there
are fewer clients with fewer examples, to see that the benchmark itself works.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from fedflat.data.augment import CropFlip
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.partitions.given import ByUser
from fedflat.data.sets.in_memory import tensors
from fedflat.experiments.api import experiment
from fedflat.experiments.experiment import Experiment
from fedflat.registry.specs import parse

FOREVER = 10**9


@dataclass(frozen=True)
class Noise(DataSpec):
    """Images of noise, or plain features; a worker process makes its own."""

    clients: int
    examples: int
    shape: tuple[int, ...]
    augment: bool = False

    def open(self, seed: int) -> Federation:
        """The same for every seed."""
        total, rng = self.clients * self.examples, torch.Generator().manual_seed(0)
        y = torch.randint(10, (total,), generator=rng)
        if len(self.shape) == 3:
            x = torch.randint(256, (total, *self.shape), generator=rng, dtype=torch.uint8)
        else:
            x = torch.randn(total, *self.shape, generator=rng)
        owners = torch.arange(self.clients).repeat_interleave(self.examples)
        change = CropFlip() if self.augment else None
        stats = {"mean": (0.5,) * 3, "std": (0.25,) * 3} if len(self.shape) == 3 else {}
        return tensors(
            x,
            y,
            x[:1],
            y[:1],
            ByUser(),
            clients=self.clients,
            classes=10,
            users=owners,
            augment=change,
            **stats,
        ).open(seed)


@dataclass(frozen=True)
class Workload:
    """One of them."""

    on: DataSpec | str
    model: str
    cohort: int
    batch: int
    method: str = "fedavg"

    def experiment(self) -> Experiment:
        """The run, without an end and without evaluations."""
        return experiment(
            self.method,
            self.on,
            model=self.model,
            rounds=FOREVER,
            eval_every=FOREVER,
            eval_last=1,
            clients_per_round=self.cohort,
            batch_size=self.batch,
            lr=0.01,
            weight_decay=4e-4,
        )

    @property
    def samples(self) -> int:
        """Examples trained on in a round."""
        on: Any = parse(self.on, "data set") if isinstance(self.on, str) else self.on
        return int(self.cohort * on.examples)


IMAGES = Noise(100, 500, (3, 32, 32))
W1 = Workload(IMAGES, "cnn", 10, 64)
FULL = {
    "w1": W1,
    "w1-aug": replace(W1, on=replace(IMAGES, augment=True)),
    "w2": replace(W1, method="fedsam(rho=0.05)"),
    "w1-r": replace(W1, model="resnet20"),
    "w3": Workload(Noise(1000, 20, (64,)), "mlp([32])", 100, 20),
    "w4-thousand": Workload(
        "synthetic(clients=1000, examples=20, features=64)", "mlp([32])", 100, 20
    ),
    "w4-million": Workload(
        "synthetic(clients=1000000, examples=20, features=64)", "mlp([32])", 100, 20
    ),
    "w5": replace(W1, on=replace(IMAGES, clients=2000, examples=64), method="feddyn(alpha=0.01)"),
    "cohort-10": replace(W1, on=replace(IMAGES, examples=64)),
    "cohort-100": replace(W1, on=replace(IMAGES, examples=64), cohort=100),
}
_FEW = Noise(4, 4, (3, 16, 16))
_TINY = Workload(_FEW, "cnn", 2, 4)
SMALL = {
    "w1": _TINY,
    "w1-aug": replace(_TINY, on=replace(_FEW, augment=True)),
    "w2": replace(_TINY, method="fedsam(rho=0.05)"),
    "w1-r": replace(_TINY, model="resnet20"),
    "w3": Workload(Noise(20, 5, (64,)), "mlp([32])", 10, 5),
    "w4-thousand": Workload("synthetic(clients=100, examples=5, features=64)", "mlp([32])", 10, 5),
    "w4-million": Workload(
        "synthetic(clients=100000, examples=5, features=64)", "mlp([32])", 10, 5
    ),
    "w5": replace(_TINY, method="feddyn(alpha=0.01)"),
    "cohort-10": replace(_TINY, cohort=1),
    "cohort-100": replace(_TINY, cohort=4),
}
SIZES = {"full": FULL, "small": SMALL}
