"""Label flipping inside superclients: FedSeq and FedAvg with equal shares of attackers.

Caldarola's doctoral thesis, section 5.2.4, Table 5.5.

    attacks/cifar10-0-2-0.1-0.5-fedseq            labels 0 and 2 swapped, L_S = 0.1 and L = 0.5
    attacks/cifar10-0-2-0.1-0.5-fedavg            FedAvg with L_S L of all clients
    attacks/cifar10-both-random-0.3-0.5-fedseq    0 and 2, 3 and 5, own pairing of each attacker
    attacks/cifar100-intra-0.5-0.5-fedseq         ten pairs, each in one superclass; extra: in two
    attacks/cifar10-none-fedseq                   the run without an attack
    attacks/cifar10-0-2-0.1-0.5                   the column's main run, FedSeq

Numbers are accuracies after 1,000 rounds, with 500 clients of 100 images, alpha = 100 and a fifth
of the clients per round. The labels of the table's rows are partly lost. We read the rows so that
FedAvg's numbers for (0.1, 0.5) and (0.5, 0.1) agree, as both have the same number of attackers. At
(0.5, 0.5) the table has the same numbers for 3 and 5 as for both pairs.

The thesis groups superclients by Task2Vec with a probe that was trained on ImageNet, which is not
available here. At alpha = 100 clients have similar data, and the presets use random superclients
with the same number of images. Which labels of CIFAR-100 were swapped is not printed: they are
sampled with the seed. CIFAR-100 is normalised with its own mean and deviation; the authors' code
uses those of CIFAR-10.

The recovery of images by a generative network has no preset: its distances need a feature network
that is not available.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fedflat.papers.presets.preset import Preset, PublishedCell, rows

TABLE_5_5 = """
    none     76.10 48.69     -     -     -     -     -     - 39.70 12.85     -     -     -     -     -     -
    0.1-0.1  76.06 48.72 76.05 47.92 76.65 47.36 76.52 48.65 38.81 12.57 39.36 13.23 40.11 12.37 39.17 13.12
    0.1-0.5  75.92 47.55 75.50 47.93 76.01 48.12 75.71 47.52 38.87 12.35 39.59 13.05 40.03 12.20 39.12 12.83
    0.3-0.1  76.25 47.74 75.75 47.80 75.79 48.29 75.98 47.01 39.66 12.45 39.67 13.23 39.29 13.08 39.54 13.06
    0.3-0.5  74.75 48.30 75.28 47.74 75.19 46.42 74.75 46.70 39.04 11.55 38.88 12.47 38.73 12.34 37.90 11.81
    0.5-0.1  75.65 47.55 76.15 47.93 75.35 48.12 75.93 47.52 39.23 12.35 39.68 13.05 38.95 12.20 39.03 13.12
    0.5-0.5  75.50 47.44 75.09 46.94 75.09 46.94 73.46 46.49 38.40 11.02 38.98 11.27 38.46 12.30 37.76 11.94"""
"""Rows are L_S-L; each column for FedSeq and for FedAvg. The first row is the text's: no attack."""

FLIPS = {
    "cifar10-0-2": "pairs=[[0, 2]]",
    "cifar10-3-5": "pairs=[[3, 5]]",
    "cifar10-both": "pairs=[[0, 2], [3, 5]]",
    "cifar10-both-random": "pairs=[[0, 2], [3, 5]], draw='random'",
    "cifar100-intra": "count=10, among='intra'",
    "cifar100-intra-random": "count=10, draw='random', among='intra'",
    "cifar100-extra": "count=10, among='extra'",
    "cifar100-extra-random": "count=10, draw='random', among='extra'",
}
METHODS = {"fedseq": "fedseq(groups=random())", "fedavg": "fedavg()"}
SETTINGS: dict[str, Any] = {
    "clients_per_round": 100, "local_epochs": 1, "batch_size": 64, "lr": 0.01, "weight_decay": 4e-4, "eval_every": 100,
    "eval_last": 100, "on_bad": "stop",
}  # fmt: skip


def presets() -> Iterator[Preset]:
    heads = [f"{flip} {method}" for flip in FLIPS for method in METHODS]
    for shares, cells in rows(TABLE_5_5, *heads):
        for head, cell in cells.items():
            flip, method = head.split(" ")
            yield _run(flip, method, shares, cell)


def _run(flip: str, method: str, shares: str, cell: PublishedCell) -> Preset:
    data = flip.split("-")[0]
    column = f"attacks/{data if shares == 'none' else flip}-{shares}"
    attack = {}
    if shares != "none":
        malicious, lying = shares.split("-")
        attack = {"attack": f"label_flip(L_S={malicious}, L={lying}, {FLIPS[flip]})"}
    note = (
        "Superclients are random ones of as many images; the thesis' were made by a probe trained "
        "on ImageNet."
    )
    return Preset(
        name=f"{column}-{method}",
        method=METHODS[method],
        on=f"{data}(by_class(100), clients=500)",
        model="cnn()",
        rounds=1_000,
        settings={**SETTINGS, **attack},
        reported=cell.value,
        table="Table 5.5",
        note=note if method == "fedseq" else "",
        column=column if method == "fedseq" else "",
    )
