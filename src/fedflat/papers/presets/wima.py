"""WiMA, the mean of the last global models, on top of eleven methods on CIFAR.

Caldarola, Caputo and Ciccone, Window-based Model Averaging Improves Generalization in Heterogeneous
Federated Learning, ICCV Workshops 2023, arXiv:2310.01366; tables are numbered as in Caldarola's
doctoral thesis.

    wima/cifar10-alpha0-scaffold           Table 4.22 without WiMA
    wima/cifar10-alpha0-scaffold-wima      the same with a window of 100 models
    wima/cifar10-alpha0-fedavg-wima-w5     Table 4.24: another window
    wima/cifar10-alpha0-b20-classifier     Table 4.25: batches of 20, a part of the model averaged
    wima/cifar100-pam-fedacg-wima          CIFAR-100 by pachinko allocation
    wima/cifar10-alpha0                    the column's main run, FedAvg + WiMA

Numbers are means of the last 100 rounds over three seeds, which are not named.

Only grids are printed for most methods; the note of each preset says which value it uses and from
which grid. We assume that the server momentum of 0.9 printed for PAM is FedAvgM's, and that its
model is the ResNet-20 of the other CIFAR columns.

Left out: the columns on FEMNIST, Shakespeare and Landmarks-User-160k (no such data sets here), and
FedDyn on CIFAR-10, where the table has no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fedflat.papers.presets.numbers import PublishedCell, rows
from fedflat.papers.presets.preset import Preset

TABLE_4_22 = """
    fedavg    64.37 69.95 68.50 72.69 23.00 27.91 31.21 34.45 47.41 48.53
    fedavgm   73.32 75.72 73.10 75.30 24.27 28.77 31.78 33.97 55.96 61.63
    mime-sgd  74.92 80.65 78.82 82.81 17.55 29.05 27.30 40.37 54.33 57.44
    mime-sgdm 74.58 76.20 78.39 80.38 25.78 30.11 38.42 43.08 54.62 57.28
    mimelite  64.42 67.78 68.27 71.21 20.00 24.69 35.56 39.15 53.97 60.34
    fedcm     78.83 81.73 73.94 80.28 19.62 25.29 36.12 40.10 53.16 54.12
    fedacg    55.27 60.09 63.20 66.35 20.09 23.55 29.74 32.46 58.88 61.38
    fedprox   64.25 69.90 67.82 71.90 22.59 27.58 30.70 33.68 55.91 62.25
    scaffold  81.45 83.96 83.24 85.17 45.65 49.77 50.93 53.75 56.09 57.64
    feddyn        -     -     -     -  5.88  8.48 20.88 24.54 57.42 63.00
    adabest   66.05 73.95 71.54 77.42 24.92 31.41 37.45 43.81 54.98 57.57"""
COLUMNS = (
    "cifar10-alpha0",
    "cifar10-alpha0.05",
    "cifar100-alpha0",
    "cifar100-alpha0.5",
    "cifar100-pam",
)
"""Each column without and with WiMA."""

TABLE_4_24 = """
    w5    67.25 22.71
    w10   69.12 25.70
    w50   69.79 22.75
    w200  68.74 27.72"""
"""CIFAR-10 and CIFAR-100 with alpha 0; the window of 100 is in Table 4.22."""

TABLE_4_25 = """
    classifier  47.76 71.01 25.13 36.12
    features    59.03 76.72 27.10 36.29
    all         59.53 78.87 27.91 37.88"""

METHODS = {
    "fedavg": "fedavg()",
    "fedavgm": "fedavgm(beta=0.9, lr=0.1)",
    "mime-sgd": "mime(b=0.0)",
    "mime-sgdm": "mime(b=0.9)",
    "mimelite": "mimelite(b=0.9)",
    "fedcm": "fedcm(a=0.1)",
    "fedacg": "fedacg(lam=0.85, beta=0.01)",
    "fedprox": "fedprox(mu=0.01)",
    "scaffold": "scaffold()",
    "feddyn": "feddyn(alpha=0.01)",
    "adabest": "adabest(beta={beta}, mu=0.02)",
}
GRIDS = {
    "fedavgm": "server rate 0.1, of 0.1 and 1",
    "mime-sgd": "server rate 1, of 0.1 and 1",
    "mime-sgdm": "server rate 1, of 0.1 and 1",
    "mimelite": "server rate 1, of 0.1 and 1",
    "fedcm": "a = 0.1, of 0.05, 0.1 and 0.5",
    "fedacg": "lambda 0.85, of 0.8, 0.85 and 0.9; beta 0.01, of 0.01 and 0.001",
    "fedprox": "mu = 0.01, of 0.1, 0.01 and 0.001",
    "feddyn": "alpha = 0.01, of 0.01 and 0.001",
    "adabest": "mu = 0.02, of 0.01 and 0.02; beta as for ECCV 2022, of 0.5 to 0.95",
}

SETTINGS: dict[str, Any] = {
    "clients_per_round": 10, "local_epochs": 1, "batch_size": 100, "lr": 0.1, "eval_every": 100, "eval_last": 100,
    "on_bad": "stop",
}  # fmt: skip
PAM = {"clients_per_round": 100, "batch_size": 20, "lr": 0.05, "weight_decay": 4e-4}


def presets() -> Iterator[Preset]:
    """Return all presets, table by table."""
    heads = [f"{column} {ending}" for column in COLUMNS for ending in ("", "-wima")]
    for row, cells in rows(TABLE_4_22, *heads):
        for head, cell in cells.items():
            column, ending = head.split(" ")
            beta = 0.9 if column.startswith("cifar10-") else 0.8
            method = METHODS[row].format(beta=beta) + (" + wima(window=100)" if ending else "")
            note = f"Only the grid is printed; used: {GRIDS[row]}." if row in GRIDS else ""
            yield _run(column, row + ending, method, cell, "Table 4.22", note=note)
    for row, cells in rows(TABLE_4_24, "cifar10-alpha0", "cifar100-alpha0"):
        for column, cell in cells.items():
            method = f"fedavg() + wima(window={row.removeprefix('w')})"
            note = "Out of line with its neighbours: perhaps 27.75." if (column, row) == ODD else ""
            yield _run(column, f"fedavg-wima-{row}", method, cell, "Table 4.24", note=note)
    for row, cells in rows(TABLE_4_25, *COLUMNS[:4]):
        for column, cell in cells.items():
            method = f"fedavg() + wima(window=100, scope='{row}')"
            note = (
                "The number of Table 4.22, though there batches have 100."
                if (column, row) == SAME
                else ""
            )
            yield _run(column, f"b20-{row}", method, cell, "Table 4.25", note=note, batch_size=20)


ODD = ("cifar100-alpha0", "w50")
SAME = ("cifar100-alpha0", "all")


def _run(
    column: str, row: str, method: str, cell: PublishedCell, table: str, *, note: str, **more: Any
) -> Preset:
    data, split = column.split("-")
    pam = split == "pam"
    partition = "pam(), clients=500" if pam else f"lda({split.removeprefix('alpha')}), clients=100"
    return Preset(
        name=f"wima/{column}-{row}",
        method=method,
        on=f"{data}({partition})",
        model="resnet20()",
        rounds=10_000,
        settings=SETTINGS | (PAM if pam else {}) | more,
        reported=cell.value,
        table=table,
        note=note,
        column=f"wima/{column}" if row == "fedavg-wima" else "",
    )
