"""Partitions as pictures.

Who holds which classes under four partitions of the digits. Rows are clients, columns classes, and
a darker cell has more examples. ``lda(0)`` and ``pathological(2)`` are the hard cases of the
papers.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

import fedflat as ff

PARTITIONS = ["iid()", "lda(10)", "lda(0)", "pathological(2)"]


def counts(partition: str, clients: int = 20) -> torch.Tensor:
    """The number of examples of each class at each client."""
    data = ff.parse(f"digits({partition}, clients={clients})", "data set").open(seed=0)
    rows = []
    for client in range(clients):
        batch = data.data(client).batch(torch.arange(data.size(client)), torch.float32)
        rows.append(torch.bincount(batch.targets, minlength=10))
    return torch.stack(rows)


figure, axes = plt.subplots(1, 4, figsize=(9, 3.6), sharey=True, layout="constrained")
for place, partition in zip(axes, PARTITIONS, strict=True):
    place.imshow(counts(partition), cmap="Blues", aspect="auto")
    place.set(title=partition, xlabel="class", xticks=range(10))
axes[0].set_ylabel("client")
figure.savefig(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_suffix(".png"), dpi=100)
