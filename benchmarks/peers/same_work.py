"""What is timed: the same clients, examples, model and local steps for everybody. Needs only numpy.

    w1     the papers' CNN on 100 clients of 500 images of 3x32x32, 10 clients a round, batches of 64
    w2     w1 with SAM
    w3     an MLP 64-32-10 on 1,000 clients of 20 examples, 100 clients a round, one batch each
    tiny, tiny-sam   a few clients of the latter, to test the benchmark itself

Each client trains for one epoch of SGD. The examples of a class lie around a point of their own, so
that there is something to learn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

LR, WEIGHT_DECAY, CLASSES = 0.01, 4e-4, 10
PROBE = 400
"""Examples on which a model's loss is looked at, at least."""

Arrays = tuple[NDArray[np.float32], NDArray[np.int64]]


@dataclass(frozen=True)
class Workload:
    """One of them."""

    clients: int
    examples: int
    """Of each client."""
    shape: tuple[int, ...]
    """Of an example: an image for the CNN, else features for the MLP."""
    cohort: int
    """Clients a round."""
    batch: int
    rho: float = 0.0
    """The radius of SAM; 0: SGD."""

    @property
    def passes(self) -> int:
        """How often an example goes through the model in an epoch."""
        return 2 if self.rho else 1

    @property
    def images(self) -> bool:
        """Whether the model is the CNN."""
        return len(self.shape) == 3

    @property
    def samples(self) -> int:
        """Examples trained on in a round."""
        return self.cohort * self.examples

    def client(self, client: int) -> Arrays:
        """Inputs and labels of one client: noise, around a point for each class."""
        middles = (
            np.random.default_rng(0).standard_normal((CLASSES, *self.shape), dtype=np.float32) / 2
        )
        rng = np.random.default_rng([1, client])
        y = rng.integers(0, CLASSES, self.examples)
        return middles[y] + rng.standard_normal((self.examples, *self.shape), dtype=np.float32), y

    def arrays(self) -> Arrays:
        """Inputs (clients, examples, *shape) and labels (clients, examples)."""
        x = np.empty((self.clients, self.examples, *self.shape), dtype=np.float32)
        y = np.empty((self.clients, self.examples), dtype=np.int64)
        for client in range(self.clients):
            x[client], y[client] = self.client(client)
        return x, y

    def probe(self) -> Arrays:
        """Some hundred examples, those of the first clients, on which a model's loss is looked
        at."""
        first = [
            self.client(client) for client in range(min(self.clients, -(-PROBE // self.examples)))
        ]
        return np.concatenate([x for x, _ in first]), np.concatenate([y for _, y in first])


WORKLOADS = {
    "w1": Workload(clients=100, examples=500, shape=(3, 32, 32), cohort=10, batch=64),
    "w3": Workload(clients=1000, examples=20, shape=(64,), cohort=100, batch=20),
    "tiny": Workload(clients=6, examples=8, shape=(64,), cohort=3, batch=4),
}
WORKLOADS |= {
    "w2": replace(WORKLOADS["w1"], rho=0.05),
    "tiny-sam": replace(WORKLOADS["tiny"], rho=0.05),
}
