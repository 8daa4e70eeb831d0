"""FedJAX: we call its `fed_avg` a round at a time.

Its client data set fills the last batch of an epoch with repeated examples. `Epoch` hands out each
example once, as everybody else does, and counts them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import haiku
import jax
import numpy as np
import optax
from same_work import CLASSES, LR, WEIGHT_DECAY, WORKLOADS
from turns import Turns

jax.tree_map = jax.tree_util.tree_map  # which FedJAX still calls by its old name
import fedjax  # noqa: E402

BACKEND = "jit"


class Epoch(fedjax.ClientDataset):
    """Each example once, in another order each time."""

    seen: ClassVar[int] = 0

    def shuffle_repeat_batch(self, hparams: Any = None, **others: Any) -> Iterator[Any]:
        """The batches."""
        order = np.random.permutation(len(self))
        for first in range(0, len(self), hparams.batch_size):
            places = order[first : first + hparams.batch_size]
            Epoch.seen += len(places)
            yield {name: values[places] for name, values in self.raw_examples.items()}


def cnn(x: Any) -> Any:
    """The papers' CNN; images have their channels last."""
    for _ in range(2):
        x = haiku.MaxPool(2, 2, padding="VALID")(haiku.Conv2D(64, 5, padding="VALID")(x))
        x = jax.nn.relu(x)
    return haiku.nets.MLP([384, 192, CLASSES])(haiku.Flatten()(x))


def mlp(x: Any) -> Any:
    """One hidden layer."""
    return haiku.nets.MLP([32, CLASSES])(x)


def main(name: str) -> None:
    """Train until nobody asks for more."""
    workload = WORKLOADS[name]
    fedjax.set_for_each_client_backend(BACKEND)
    x, y = workload.arrays()
    probe_x, probe_y = workload.probe()
    if workload.images:
        x, probe_x = (np.ascontiguousarray(np.moveaxis(part, -3, -1)) for part in (x, probe_x))
    data = fedjax.InMemoryFederatedData(
        {client: {"x": x[client], "y": y[client]} for client in range(len(y))}
    )
    probe = {"x": probe_x, "y": probe_y}
    net = haiku.without_apply_rng(haiku.transform(cnn if workload.images else mlp))

    def loss(params: Any, batch: Any) -> Any:
        outputs = net.apply(params, batch["x"])
        return optax.softmax_cross_entropy_with_integer_labels(outputs, batch["y"]).mean()

    def gradient(params: Any, batch: Any, rng: Any) -> Any:
        slope = jax.grad(loss)(params, batch)
        if workload.rho:
            scale = workload.rho / (optax.global_norm(slope) + 1e-12)
            above = jax.tree_util.tree_map(lambda w, g: w + scale * g, params, slope)
            slope = jax.grad(loss)(above, batch)
        return jax.tree_util.tree_map(lambda g, w: g + WEIGHT_DECAY * w, slope, params)

    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        gradient,
        fedjax.optimizers.sgd(LR),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=workload.batch, num_epochs=1),
    )
    state = algorithm.init(net.init(jax.random.PRNGKey(0), x[0, :2]))
    sampler = fedjax.client_samplers.UniformGetClientSampler(data, workload.cohort, seed=0)
    turns = Turns(f"for_each_client backend {BACKEND!r}", "fedjax", "jax", "dm-haiku")
    go_on = True
    while go_on:
        Epoch.seen = 0
        cohort = [(client, Epoch(held.raw_examples), rng) for client, held, rng in sampler.sample()]
        state, _ = algorithm.apply(state, cohort)
        jax.block_until_ready(state.params)
        go_on = turns.round(Epoch.seen, lambda: float(jax.jit(loss)(state.params, probe)))  # noqa: B023


if __name__ == "__main__":
    main(sys.argv[1])
