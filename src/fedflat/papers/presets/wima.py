"""WiMA, the mean of the last global models, on top of eleven methods.

Caldarola, Caputo and Ciccone, Window-based Model Averaging Improves Generalization in Heterogeneous
Federated Learning, ICCV Workshops 2023, arXiv:2310.01366; tables are numbered as in Caldarola's
doctoral thesis.

    wima/cifar10-alpha0-scaffold           Table 4.22 without WiMA
    wima/cifar10-alpha0-scaffold-wima      the same with a window of 100 models
    wima/cifar10-alpha0-fedavg-wima-w5     Table 4.24: another window
    wima/cifar10-alpha0-b20-classifier     Table 4.25: batches of 20, a part of the model averaged
    wima/cifar100-pam-fedacg-wima          CIFAR-100 by pachinko allocation
    wima/femnist-fedacg-wima               FEMNIST
    wima/landmarks-scaffold-wima           Table 4.23: a window of 370
    wima/cifar100-alpha0-fedavg-swa-from25 Figure 4.31: SWA after 25 % of the rounds
    wima/cifar10-alpha0-b20-15clients-wima Figure 4.34: clients per round
    wima/cifar10-alpha0                    the column's main run, FedAvg + WiMA

Numbers are means of the last 100 rounds over three seeds, which are not named.

Only grids are printed for most methods; the note of each preset says which value it uses and from
which grid. We assume that the server momentum of 0.9 printed for PAM is FedAvgM's, and that its
model is the ResNet-20 of the other CIFAR columns.

FEMNIST's network is "a 2-layer CNN" after McMahan et al.: theirs is used, not the one of FedJAX. Its
weight decay is not printed: none is used. Which starts of SWA Figure 4.31 shows is not printed:
here 5, 25, 50 and 75 %, with cycles of 20 rounds. On Landmarks-User-160k the network starts from
weights that were trained on ImageNet, which are not published: give your own with ``--init``.

Left out: FedDyn on CIFAR-10 and FEMNIST, where the table has no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fedflat.papers.presets.preset import Preset, PublishedCell, rows

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

FEMNIST = """
    fedavg    83.59 85.06
    fedavgm   85.00 85.26
    mime-sgd  85.37 86.40
    mime-sgdm 86.67 87.40
    mimelite  86.82 87.51
    fedcm     83.88 84.90
    fedacg    85.73 86.14
    fedprox   84.50 85.21
    scaffold  85.87 86.61
    adabest   84.95 86.02"""
"""The last column of Table 4.22, without and with WiMA."""

TABLE_4_23 = """
    fedavg   58.17 63.05
    scaffold 62.32 68.30"""

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
LETTERS = {"batch_size": 10, "lr": 0.1}
PHOTOS = {"local_epochs": 5, "batch_size": 50, "lr": 0.1, "weight_decay": 4e-5}
PRETRAINED = (
    "The paper starts from ImageNet weights, which are not published: give yours with --init."
)
STARTS = (5, 25, 50, 75)
COHORTS = (10, 15, 20, 50)
PAM = {"clients_per_round": 100, "batch_size": 20, "lr": 0.05, "weight_decay": 4e-4}


def presets() -> Iterator[Preset]:
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
    yield from _natural()
    yield from _figures()


def _natural() -> Iterator[Preset]:
    """FEMNIST and Landmarks-User-160k."""
    for name, numbers, window in (("femnist", FEMNIST, 100), ("landmarks", TABLE_4_23, 370)):
        for row, cells in rows(numbers, "", f" + wima(window={window})"):
            for average, cell in cells.items():
                method = METHODS[row].format(beta=0.9) + average
                note = f"Only the grid is printed; taken: {GRIDS[row]}." if row in GRIDS else ""
                run = _run("cifar10-alpha0", row, method, cell, "Table 4.22", note=note)
                ending = row + ("-wima" if average else "")
                column = f"wima/{name}" if ending == "fedavg-wima" else ""
                yield replace(run, name=f"wima/{name}-{ending}", column=column, **WORLDS[name])


WORLDS: dict[str, dict[str, Any]] = {
    "femnist": {
        "on": "femnist()",
        "model": "mcmahan_cnn()",
        "rounds": 1500,
        "settings": SETTINGS | LETTERS,
    },
    "landmarks": {
        "on": "landmarks()",
        "model": "mobilenetv2(norm='group', dropout=0)",
        "rounds": 3000,
        "settings": SETTINGS | PHOTOS,
        "table": "Table 4.23",
        "note": PRETRAINED,
    },
}


def _figures() -> Iterator[Preset]:
    none, note = PublishedCell(None), "A point of a figure, whose value is not printed."
    for start in STARTS:
        first = "" if start == 75 else f"start={start / 100}, "
        method = f"fedavg() + swa({first}cycle=20)"
        row = f"fedavg-swa-from{start}"
        run = _run("cifar100-alpha0", row, method, none, "Figure 4.31", note=note)
        yield replace(run, not_printed=True)
    for column in COLUMNS[:2]:
        for clients in COHORTS:
            for ending, method in (("", "fedavg()"), ("-wima", "fedavg() + wima(window=100)")):
                more = {"batch_size": 20, "clients_per_round": clients}
                row = f"b20-{clients}clients{ending}"
                run = _run(column, row, method, none, "Figure 4.34", note=note, **more)
                yield replace(run, not_printed=True)


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
