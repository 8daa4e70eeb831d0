"""From a set of examples to a federation: the partition, then each client's own split."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedflat.core.seeds import numpy_generator
from fedflat.data.examples import AnyExamples, ClientData
from fedflat.data.federation import PartitionedFederation
from fedflat.data.partitions.partition import Index, Partition
from fedflat.errors import LARGEST_SEED, SettingError, number
from fedflat.registry.specs import registered


def check_cut(owner: str, partition: object, clients: object, split: object, seed: object) -> None:
    """Refuse arguments from which no federation can be made."""
    if not isinstance(partition, Partition):
        known = ", ".join(entry.name for entry in registered("partition"))
        raise SettingError(f"{owner}: the partition must be one of {known}, found {partition!r}.")
    number(owner, "clients", clients, low=1, whole=True)
    if split is not None:
        number(owner, "split", split, low=0, high=1, open_low=True)
        if split == 1:
            raise SettingError(
                f"{owner}: split must be below 1, or clients have no example to test on."
            )
    if seed is not None:
        number(owner, "seed", seed, low=0, high=LARGEST_SEED, whole=True)


def federate(
    everything: AnyExamples,
    train: int,
    partition: Partition,
    clients: int,
    seed: int,
    *,
    split: float | None = None,
    pool: bool = False,
    coarse: Index | None = None,
    users: Index | None = None,
) -> PartitionedFederation:
    """Partition ``everything``: the first ``train`` examples for training, the rest for testing.

    With ``pool`` all examples are partitioned, and the test set is what the clients hold out by
    ``split``.

    partition
        Assigns examples to clients.
    seed
        Seed of partition and split.
    coarse
        A coarse class of each example, for partitions that use it.
    users
        The user of each example, for partitions by user.
    """
    count = len(everything) if pool else train
    examples = everything if pool else everything.part(slice(0, train))
    labels = examples.labels.numpy() if partition.by_label else np.zeros(count, np.int64)
    parts = partition.assign(
        labels,
        clients,
        numpy_generator(seed, "partition"),
        coarse=None if coarse is None else coarse[:count],
        users=None if users is None else users[:count],
    )
    trained = [torch.from_numpy(part) for part in parts]
    held_out = None
    if split is not None:
        trained, held_out = split_each(trained, split, seed)
    if pool:
        assert held_out is not None
        test = ClientData(examples.plain(), torch.cat(held_out))
    else:
        rest = everything.part(slice(train, None)).plain()
        test = ClientData(rest, torch.arange(len(rest)))
    return PartitionedFederation(examples, test, trained, held_out)


def split_each(parts: list[Tensor], share: float, seed: int) -> tuple[list[Tensor], list[Tensor]]:
    """Split each part at random into training (``share``) and test, at least one example each."""
    trained, held_out = [], []
    for client, part in enumerate(parts):
        if len(part) < 2:
            raise SettingError(
                f"split: client {client} must have two examples, to train on and to test on, "
                f"found {len(part)}. Use fewer clients or a milder partition, or leave split out."
            )
        order = numpy_generator(seed, "split", client).permutation(len(part))
        cut = min(max(round(share * len(part)), 1), len(part) - 1)
        trained.append(part[torch.from_numpy(np.sort(order[:cut]))])
        held_out.append(part[torch.from_numpy(np.sort(order[cut:]))])
    return trained, held_out
