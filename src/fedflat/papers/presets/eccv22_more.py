"""FedSAM, FedASAM and server-side SWA: further tables and figures of the ECCV 2022 paper.

    Table 1          largest Hessian eigenvalue, and its ratio to the fifth
    Tables 4, 17     with Mixup or Cutout
    Tables 5, 16     centralised runs; their other numbers are differences of numbers elsewhere
    Table 7          Landmarks-User-160k
    Table 15         the round in which SWA starts
    Table 4.6        of Caldarola's thesis: with server momentum
    Figure 9         accuracy against SAM's rho, ASAM's rho and ASAM's eta

Names and settings are explained in `fedflat.papers.presets.eccv22`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fedflat.papers.presets.eccv22 import ALPHAS, ASAM, SAM, SETTINGS, lda_run
from fedflat.papers.presets.preset import Preset, PublishedCell, rows

TABLE_1 = """
    fedavg      93.46 106.14 2.00 1.31
    fedavg+e2  110.62 118.35 2.32 1.30
    fedsam      70.29  51.28 1.79 1.48
    fedasam     30.11  20.19 1.80 1.27
    fedavg+swa  97.24 120.02 1.49 1.39
    fedsam+swa  73.16  54.20 1.56 1.61
    fedasam+swa 24.57  20.49 1.51 1.30"""
"""Lambda_1 with alpha 0 and 1000, lambda_1/lambda_5 with alpha 0 and 1000, on CIFAR-100."""

TABLES_4_AND_17 = {
    "cifar100": """
    fedavg+mixup       29.91 33.67 35.67 35.10 37.80 39.34 55.34 55.81 55.98
    fedsam+mixup       30.46 34.10 35.89 38.76 40.31 42.03 54.21 54.94 55.24
    fedasam+mixup      34.04 36.82 36.97 40.71 42.24 44.45 49.75 49.87 49.68
    fedavg+mixup+swa   35.56 36.07 36.08 39.21 39.22 38.31 55.43 55.37 55.39
    fedsam+mixup+swa   35.62 36.25 35.66 42.13 41.95 42.03  52.9 53.14 53.48
    fedasam+mixup+swa  40.08 38.74 37.47 44.53 43.97 44.22 46.97 47.24 46.93
    fedavg+cutout      24.24 31.55 32.44 37.72 38.45 39.48 53.48 53.83 52.90
    fedsam+cutout      23.51 30.92 33.12 40.33 40.31 42.58 54.27 54.75 54.76
    fedasam+cutout     30.05 33.62 34.51 41.86 41.84 43.33 51.88 51.78 53.03
    fedavg+cutout+swa  33.65 34.40 35.03 40.43 40.12 39.32 53.87 54.09 52.75
    fedsam+cutout+swa  34.00 34.08 34.26 43.09 42.81 42.85 53.78 54.28 53.93
    fedasam+cutout+swa 39.30 37.46 36.27 44.76 43.48 43.95 50.00 49.65 50.81""",
    "cifar10": """
    fedavg+mixup       62.26 63.61 65.54 65.63 68.44 68.21 82.38 84.46 83.58
    fedsam+mixup       67.35 69.32 69.78 70.34 72.98 72.54 81.88 82.24 82.25
    fedasam+mixup      70.61 71.31 71.62 72.19 72.84 72.72 82.36 82.75 83.08
    fedavg+mixup+swa   66.31 66.89 66.26 69.79 69.12 68.80 82.27 82.88 82.67
    fedsam+mixup+swa   72.42 70.65 69.75 73.36 72.29 72.44 81.04 81.18 81.15
    fedasam+mixup+swa  72.37 72.40 71.89 72.54 72.36 72.32 81.86 81.70 81.92
    fedavg+cutout      61.12 64.47 64.20 66.45 69.09 68.99 83.77 83.91 84.31
    fedsam+cutout      63.69 66.30 67.25 67.66 71.39 70.67 83.03 83.84 83.49
    fedasam+cutout     68.50 69.26 69.75 69.23 71.91 71.28 83.73 84.10 84.00
    fedavg+cutout+swa  65.54 65.60 65.79 69.94 69.55 69.63 83.35 83.39 83.64
    fedsam+cutout+swa  69.40 68.45 67.36 71.36 71.56 70.99 82.61 82.75 82.52
    fedasam+cutout+swa 71.30 71.12 70.91 72.79 71.76 71.09 83.06 83.31 83.11""",
}
"""Columns as in Table 2. Table 17 also has rows of Table 2."""
ODD = ("cifar10", "fedavg+mixup", "100 10")

TABLE_15 = {
    "cifar100": """
    5  24.53 34.52 49.38
    25 30.66 39.71 51.52
    50 36.21 42.55 51.01""",
    "cifar10": """
    5  55.57 60.50 79.09
    25 60.34 65.72 81.49
    50 66.22 70.55 83.79""",
}
"""Share of the rounds in per cent after which SWA starts, and the three alphas with 5 clients per
round. The start after 75 % is in Table 2."""

TABLE_5 = """
    sgd      52.20
    sam      55.22
    asam     55.66
    swa      52.72
    sam+swa  55.75
    asam+swa 55.96
    mixup    58.01
    cutout   55.30"""
"""Centralised training on CIFAR-100."""

TABLE_4_6 = {
    "cifar100": """
    fedavgm              -     - 50.77
    fedavgm+sam      41.96 50.23 52.29
    fedavgm+asam         -     - 53.74
    fedavgm+swa          -     - 51.78
    fedavgm+sam+swa  54.63 54.93 53.27
    fedavgm+asam+swa     -     - 54.72""",
    "cifar10": """
    fedavgm              -     - 85.05
    fedavgm+sam      83.07 83.57 86.20
    fedavgm+asam         -     - 85.42
    fedavgm+swa          -     - 85.73
    fedavgm+sam+swa  85.65 85.98 86.79
    fedavgm+asam+swa     -     - 86.00""",
}
"""The three alphas with 20 clients per round; ``-`` is in Table 6."""

TABLE_7 = """
    fedavg  61.91 66.05 67.52
    fedsam  63.72 67.11 68.12
    fedasam 64.23 67.17 68.32"""
"""After 5,000 rounds; with SWA from 75 %; with SWA from 100 % on."""
LANDMARKS: dict[str, Any] = {
    "clients_per_round": 10, "local_epochs": 5, "batch_size": 64, "lr": 0.1, "weight_decay": 4e-5,
    "sampler_seed": "round", "eval_every": 100, "eval_last": 100, "on_bad": "stop",
}  # fmt: skip
MOBILE = "mobilenetv2(norm='group', dropout=0)"
PRETRAINED = (
    "The paper starts from ImageNet weights, which are not published: give yours with --init."
)

FIGURE_9 = {
    "Figure 9a": ("fedsam-rho{}", "fedsam(rho={})", (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)),
    "Figure 9b": (
        "fedasam-rho{}",
        "fedasam(rho={}, eta=0.2)",
        (0.05, 0.1, 0.2, 0.5, 0.7, 1.0, 2.0),
    ),
    "Figure 9c": ("fedasam-eta{}", "fedasam(rho=0.5, eta={})", (0.0, 0.01, 0.1, 0.2)),
}


def presets() -> Iterator[Preset]:
    yield from _table_1()
    for data, table in (("cifar100", "Table 4"), ("cifar10", "Table 17")):
        yield from _augmented(data, table)
        yield from _starts(data)
        yield from _with_momentum(data)
    yield from _centralised()
    yield from _landmarks()
    yield from _figure_9()


def _table_1() -> Iterator[Preset]:
    for row, cells in rows(TABLE_1, "lambda1 0", "lambda1 1000", "ratio 0", "ratio 1000"):
        for head, cell in cells.items():
            kind, alpha = head.split()
            run = lda_run("cifar100", alpha, "5", row, cell, "Table 1")
            measure = {"lambda1": "lambda_1", "ratio": "ratio"}[kind]
            yield run.measuring(kind, measure, cell, where="train")


def _augmented(data: str, table: str) -> Iterator[Preset]:
    heads = [f"{alpha} {clients}" for alpha in ALPHAS[data] for clients in (5, 10, 20)]
    for row, cells in rows(TABLES_4_AND_17[data], *heads):
        for head, cell in cells.items():
            alpha, clients = head.split()
            odd = "Out of line with its neighbours, 82.38 and 83.58."
            note = odd if (data, row, head) == ODD else ""
            run = lda_run(data, alpha, clients, row, cell, table)
            yield replace(run, note=note)
            if data == "cifar100" and "cutout" in row:
                repo = lda_run(data, alpha, clients, f"{row}+repo", cell, table)
                yield replace(repo, note="Cutout of 16 pixels, as the code has it.")


def _starts(data: str) -> Iterator[Preset]:
    cycle = {"cifar10": 10, "cifar100": 20}[data]
    for start, cells in rows(TABLE_15[data], *ALPHAS[data]):
        for alpha, cell in cells.items():
            run = lda_run(data, alpha, "5", "fedavg+swa", cell, "Table 15")
            share = int(start) / 100
            yield replace(
                run,
                name=f"{run.name}-from{start}",
                method=f"fedavg() + swa(start={share}, cycle={cycle})",
            )


def _with_momentum(data: str) -> Iterator[Preset]:
    for row, cells in rows(TABLE_4_6[data], *ALPHAS[data]):
        for alpha, cell in cells.items():
            run = lda_run(data, alpha, "20", row, cell, "Table 4.6")
            yield replace(run, note="A table of Caldarola's thesis.", column="")


def _centralised() -> Iterator[Preset]:
    words = {
        "sam": f"sam(rho={SAM['cifar100'][2]})", "asam": f"asam(rho={ASAM['cifar100'][2]}, eta=0.2)",
        "swa": "swa(cycle=20)", "mixup": "mixup(alpha=1.0)", "cutout": "cutout(side=8)",
    }  # fmt: skip
    own = {"lr": "cosine(0.01, 0.0, 300)", "momentum": 0.9, "clients_per_round": 1}
    for row, cells in rows(TABLE_5, "accuracy"):
        cell = cells["accuracy"]
        pieces = [words[word] for word in row.split("+") if word in words]
        yield Preset(
            name=f"eccv22/cifar100-centralised-{row.replace('+', '-')}",
            method=" + ".join(["centralised()", *pieces]),
            on="cifar100(iid(), clients=100)",
            model="cnn()",
            rounds=300,
            settings=SETTINGS | own | {"eval_every": 10, "eval_last": 1},
            reported=cell.value,
            table="Table 5",
            note="Its settings are not printed: those of FedSeq's centralised runs are used.",
        )


def _landmarks() -> Iterator[Preset]:
    words = {
        "fedavg": "fedavg()",
        "fedsam": "fedsam(rho=0.05)",
        "fedasam": "fedasam(rho=0.5, eta=0.2)",
    }
    swa = {
        "": ("", 5000, ""),
        "-swa": (" + swa(cycle=5)", 5000, ""),
        "-swa100": (
            " + swa(start=5000, cycle=5)",
            6250,
            " The number of rounds after round 5,000 is not printed, 1,250 here.",
        ),
    }
    for row, cells in rows(TABLE_7, *swa):
        for ending, cell in cells.items():
            average, rounds, note = swa[ending]
            yield _landmark(f"{row}{ending}", words[row] + average, rounds, cell, note)
    own = {"clients_per_round": 1, "local_epochs": 1, "lr": "cosine(0.1, 0.0, 100)", "eval_last": 1}
    run = _landmark("centralised", "centralised()", 100, PublishedCell(74.03), "")
    note = f"{PRETRAINED} Its settings are not printed: 100 epochs with a cosine are used."
    yield replace(run, settings=LANDMARKS | own | {"eval_every": 10}, note=note)


def _landmark(row: str, method: str, rounds: int, cell: PublishedCell, note: str) -> Preset:
    return Preset(
        name=f"eccv22/landmarks-{row}",
        method=method,
        on="landmarks()",
        model=MOBILE,
        rounds=rounds,
        settings=LANDMARKS,
        reported=cell.value,
        table="Table 7",
        note=PRETRAINED + note,
        column="eccv22/landmarks" if row == "fedasam-swa" else "",
    )


def _figure_9() -> Iterator[Preset]:
    for figure, (name, method, values) in FIGURE_9.items():
        for alpha in ALPHAS["cifar100"]:
            for value in values:
                run = lda_run("cifar100", alpha, "5", "fedavg", PublishedCell(None), figure)
                yield replace(
                    run,
                    name=f"eccv22/cifar100-alpha{alpha}-{name.format(f'{value:g}')}",
                    method=method.format(f"{value:g}"),
                    not_printed=True,
                    note="A point of a figure, whose value is not printed.",
                )
