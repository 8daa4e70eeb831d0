"""FedGloSS: Landmarks-User-160k, rounds and traffic to FedAvg's accuracy, eigenvalues, Figure 19.

Names and settings are explained in `fedflat.papers.presets.fedgloss`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import mean
from typing import Any

from fedflat.papers.presets.fedgloss import (
    CHOSEN,
    COLUMNS_3,
    COLUMNS_9,
    SETTINGS,
    method_of,
)
from fedflat.papers.presets.fedgloss import presets as accuracies
from fedflat.papers.presets.preset import Preset, PublishedCell, read, rows

TABLE_1 = """
    cifar10-fedavg-local         9.1 424.2  18.4 483.5 263.2
    cifar10-fedavg-global      239.1 273.0 237.0 269.5 259.0
    cifar10-fedsam-local       100.6  28.8 106.4 103.2  68.1
    cifar10-fedsam-global       36.4  16.5  35.7  30.6  32.9
    cifar10-feddyn-local       752.5  59.9 894.0 761.6 528.9
    cifar10-feddyn-global      347.8 242.3 371.2 348.9 286.0
    cifar10-feddyn-sam-local   199.6 122.0 200.2 206.9 155.6
    cifar10-feddyn-sam-global   12.0  11.1  12.0  12.3  11.7
    cifar10-fedsmoo-local      122.1  82.4 134.2 122.8  79.3
    cifar10-fedsmoo-global      26.5  26.9  25.7  25.2  33.5
    cifar10-fedgloss-local     190.1 106.9 200.1 207.8  84.8
    cifar10-fedgloss-global      4.3   3.9   4.1   4.0   4.1
    cifar100-fedavg-local      251.0  91.2 108.4 613.3  37.9
    cifar100-fedavg-global     224.5 267.0 215.2 300.1 259.0
    cifar100-fedsam-local        0.1   0.2   6.7   1.3  15.3
    cifar100-fedsam-global     238.5 149.1 129.3 194.6 142.6
    cifar100-feddyn-local          X     X     X     X     X
    cifar100-feddyn-global         X     X     X     X     X
    cifar100-feddyn-sam-local      X     X     X     X     X
    cifar100-feddyn-sam-global     X     X     X     X     X
    cifar100-fedsmoo-local      33.2 331.2 428.6 143.5 455.5
    cifar100-fedsmoo-global     31.4 102.2 121.0  40.2  90.9
    cifar100-fedgloss-local     28.3 260.8 220.3 269.2 392.4
    cifar100-fedgloss-global    19.6  40.7  49.6  22.2  39.0"""
"""Clients of one class each: airplane, cat, bird, airplane and frog on CIFAR-10, and sea, snail,
bear, skyscraper and possum on CIFAR-100."""

TABLE_4 = """
    fedavg     56.3±0.2
    fedprox    55.0±0.2
    feddyn     55.2±0.6
    scaffold   X
    fedsam     56.7±0.1
    feddyn-sam 56.0±1.3
    fedgamma   X
    fedsmoo    59.5±0.1
    fedgloss   59.7±1.2"""

TABLE_5 = """
    fedprox       7600 0.8 18700 0.9 8800 0.9 8300 0.8    ~   ~
    feddyn        2000 0.2     X   X    ~   ~ 3500 0.4    ~   ~
    scaffold         ~   ~     ~   ~    ~   ~ 8900 1.8    X   X
    fedgloss-sgd  3400 0.3  5000 0.3 2400 0.2 1900 0.2 1300   1
    fedsam        6300 0.6 18300 0.9 9200 0.9 7800 0.8 1300   1
    feddyn-sam    3000 0.3     X   X 4100 0.4 3500 0.4    ~   ~
    fedspeed      6300 0.6 18300 0.9 8300 0.8 8300 0.8 1300   1
    fedgamma         ~   ~     ~   ~ 9300 1.9 8100 1.6    X   X
    fedsmoo       1900 0.4  4500 0.5 2400 0.5 2300 0.5  200 0.4
    fedgloss      2200 0.2  6300 0.3 2400 0.2 1900 0.2  200 0.2"""
"""Rounds and cost; ~ is printed as -."""
COLUMNS_5 = (
    "cifar10-cnn-alpha0", "cifar100-cnn-alpha0", "cifar10-resnet18-alpha0.05", "cifar100-resnet18-alpha0.5",
    "landmarks",
)  # fmt: skip

TABLE_10 = """
    fedprox       7900 0.8 18600 0.9
    feddyn        1900 0.2     X   X
    scaffold         ~   ~     ~   ~
    fedgloss-sgd  3800 0.4  4700 0.2
    fedsam        7800 0.8 16300 0.8
    feddyn-sam    4200 0.4     X   X
    fedspeed      6900 0.7 15700 0.8
    fedgamma         ~   ~     ~   ~
    fedsmoo       2200 0.4  6500 0.7
    fedgloss      2200 0.2  5200 0.3"""
COLUMNS_10 = ("cifar10-cnn-alpha0.05", "cifar100-cnn-alpha0.5")
"""Those that Table 5 does not have."""

SPEED_UPS = """
    fedprox      1.3 1.3 1.1 1.1 1.1 1.2   ~
    feddyn         5   5   X   X   ~ 2.9   ~
    scaffold       ~   ~   ~   ~   ~ 1.1   X
    fedgloss-sgd 2.9 2.6   4 4.3 4.2 5.3   ~
    fedsam       1.6 1.3 1.1 1.2 1.1 1.3   1
    feddyn-sam   3.3 2.4   X   X 2.4 2.9   ~
    fedspeed     1.6 1.4 1.1 1.3 1.2 1.2   1
    fedgamma       ~   ~   ~   ~ 1.1 1.2   X
    fedsmoo      5.3 4.5 4.4 3.1 4.2 4.3 6.5
    fedgloss     4.5 4.5 3.2 3.8 4.2 5.3 6.5"""
"""Of Table 10, in the columns of Table 3 and on Landmarks-User-160k."""
CONTRADICTED = {
    "fedsmoo-cost": "Table 10 prints 0.3 B, which fits 200 of 1,300 rounds.",
    "fedgloss-sgd-rounds": "Table 10 says that it is not reached.",
    "fedgloss-sgd-cost": "Table 10 says that it is not reached.",
    "fedgloss-sgd-speedup": "Table 5 says that it is reached after 1,300 rounds.",
}

TABLE_6_LAMBDA = """
    naive-fedgloss 2.78±0.13 2.75±0.09 16.93±0.27 15.84±0.52"""
"""The other row is that of Table 8."""
TABLE_6_HALF = """
    naive-fedgloss 77.6±0.3 78.7±0.1 42.6±0.8 49.4±0.5
    fedgloss       78.9±0.5 79.7±0.4 39.5±0.9 47.2±1.1"""
TABLE_6_CENTRALISED = """
    sam      87.1 58.4
    last-sam 86.3 57.6"""

TABLE_8 = """
    fedavg        66.23±0.50   71.14±4.07   66.30±3.08  68.77±0.96
    fedprox       66.19±0.52   71.41±4.40   66.34±3.75  68.63±1.37
    feddyn        63.94±4.41   71.44±8.73            -           -
    scaffold     166.54±6.93 180.51±30.08            - 120.01±0.76
    fedgloss-sgd  58.26±3.49   56.28±4.19   96.01±9.00  107.35±7.5
    fedsam        10.35±0.07    9.43±0.28   58.38±2.93  57.54±1.21
    feddyn-sam    10.04±5.38    6.58±0.20            -           -
    fedspeed      10.92±0.17    9.97±0.12   58.23±3.18  58.00±1.86
    fedgamma       4.79±0.20    4.55±0.20            -  99.86±6.74
    fedsmoo       15.37±1.67   12.57±0.56   28.43±1.97  29.23±0.17
    fedgloss       2.03±0.05    1.93±0.03   17.18±0.97  16.22±0.35"""

TABLE_9_LAMBDA = """
    fedavg               68.4 49.4
    fedsam               36.2 32.6
    feddyn               47.8 91.7
    feddyn-sam           27.9 46.0
    fedsmoo               6.4 24.6
    fedgloss-sgd-noadmm  67.7 50.8
    fedgloss-sgd          7.1 47.9
    fedgloss-noadmm      36.2 13.9
    fedgloss              2.8 11.8"""

LANDMARKS: dict[str, Any] = SETTINGS | {
    "clients_per_round": 50, "local_epochs": 5, "lr": 0.1, "weight_decay": 4e-5,
}  # fmt: skip
PRETRAINED = (
    "The paper starts from ImageNet weights, which are not published: give yours with --init."
)
RADII = {
    "cifar100-cnn-alpha0": (0.01, 0.05, 0.1, 0.2),
    "cifar100-resnet18-alpha0.5": (0.01, 0.05, 0.1, 0.5),
}
"""The grids of Table 13; which values Figure 19 shows is not printed."""
MEAN_OF_LAST = " + wima(window=100)"


def presets() -> Iterator[Preset]:
    runs = {preset.name: preset for preset in accuracies()}
    landmarks = {
        f"fedgloss/landmarks-{row}": _landmarks(row) for row, _ in rows(TABLE_5, *_heads())
    }
    landmarks["fedgloss/landmarks-fedavg"] = _landmarks("fedavg")
    for row, cells in rows(TABLE_4, "accuracy"):
        run, cell = landmarks[f"fedgloss/landmarks-{row}"], cells["accuracy"]
        yield replace(run, reported=cell.value, spread=cell.spread, not_printed=False)
    runs |= landmarks
    yield from _clients(runs)
    yield from _targets(runs)
    yield from _eigenvalues(runs)
    for row, cells in rows(TABLE_6_HALF, *COLUMNS_3[:4]):
        for column, cell in cells.items():
            run = runs[f"fedgloss/{column}-{row}"]
            yield run.measuring("half", "accuracy", cell, table="Table 6", at=0.5)
    yield from _centralised()
    yield from _figure_19(runs)


def _heads() -> list[str]:
    return [f"{column} {kind}" for column in COLUMNS_5 for kind in ("rounds", "cost")]


def _landmarks(row: str) -> Preset:
    return Preset(
        name=f"fedgloss/landmarks-{row}",
        method=method_of(row, CHOSEN["landmarks"], repo=False),
        on="landmarks()",
        model="mobilenetv2(norm='group', dropout=0)",
        rounds=1300,
        settings=LANDMARKS,
        reported=None,
        not_printed=True,
        table="Table 4",
        note=PRETRAINED,
        column="fedgloss/landmarks" if row == "fedgloss" else "",
        seeds=(0, 42, 200299),
    )


def _clients(runs: dict[str, Preset]) -> Iterator[Preset]:
    """Table 1: the mean of the five numbers that are printed."""
    for line in TABLE_1.strip().splitlines():
        name, *printed = line.split()
        data, rest = name.split("-", 1)
        row, kind = rest.rsplit("-", 1)
        values = [read(text).value for text in printed]
        known = [value for value in values if value is not None]
        cell = PublishedCell(round(mean(known), 2) if known else None)
        note = f"The mean of {', '.join(printed)}, five clients of one class each." if known else ""
        yield runs[f"fedgloss/{data}-cnn-alpha0-{row}"].measuring(
            kind, f"{kind}_lambda_1", cell, table="Table 1", where="train", note=note
        )


def _targets(runs: dict[str, Preset]) -> Iterator[Preset]:
    kinds = ("rounds", "cost")
    heads_10 = [f"{column} {kind}" for column in COLUMNS_10 for kind in kinds]
    speed_ups = [f"{column} speedup" for column in (*COLUMNS_3, "landmarks")]
    for table, numbers, heads in (
        ("Table 5", TABLE_5, _heads()), ("Table 10", TABLE_10, heads_10), ("Table 10", SPEED_UPS, speed_ups),
    ):  # fmt: skip
        for row, cells in rows(numbers, *heads):
            for head, cell in cells.items():
                column, kind = head.split()
                note = CONTRADICTED.get(f"{row}-{kind}", "") if column == "landmarks" else ""
                yield runs[f"fedgloss/{column}-{row}"].measuring(
                    kind, kind, cell, table=table, target=f"fedgloss/{column}-fedavg", note=note
                )


def _eigenvalues(runs: dict[str, Preset]) -> Iterator[Preset]:
    for table, numbers, columns in (
        ("Table 8", TABLE_8, COLUMNS_3[:4]), ("Table 6", TABLE_6_LAMBDA, COLUMNS_3[:4]),
        ("Table 9", TABLE_9_LAMBDA, COLUMNS_9),
    ):  # fmt: skip
        for row, cells in rows(numbers, *columns):
            for column, cell in cells.items():
                for ending in ("", "-repo"):
                    run = runs.get(f"fedgloss/{column}-{row}{ending}")
                    if run is not None:
                        yield run.measuring(
                            "lambda1",
                            "lambda_1",
                            cell,
                            table=table,
                            method=run.method + MEAN_OF_LAST,
                        )


def _centralised() -> Iterator[Preset]:
    for row, cells in rows(TABLE_6_CENTRALISED, "cifar10", "cifar100"):
        for data, cell in cells.items():
            rho = CHOSEN[f"{data}-cnn"]["sam"]
            yield Preset(
                name=f"fedgloss/{data}-centralised-{row}",
                method=f"centralised() + {row.replace('-', '_')}(rho={rho})",
                on=f"{data}(iid(), clients=100, normalise='fedgloss')",
                model="cnn()",
                rounds=300,
                settings=SETTINGS
                | {"clients_per_round": 1, "lr": "cosine(0.01, 0.0, 300)", "momentum": 0.9}
                | {"weight_decay": 4e-4, "eval_every": 10, "eval_last": 1},
                reported=cell.value,
                table="Table 6",
                note="Its settings are not printed; the radius is FedSAM's.",
                seeds=(0, 42, 200299),
            )


def _figure_19(runs: dict[str, Preset]) -> Iterator[Preset]:
    for column, radii in RADII.items():
        run = runs[f"fedgloss/{column}-fedgloss"]
        chosen = CHOSEN[column.rpartition("-")[0]]
        for rho in radii:
            point = replace(
                run,
                name=f"fedgloss/{column}-rhos{rho:g}",
                method=method_of("fedgloss", {**chosen, "rho_s": rho}, repo=False),
                reported=None,
                spread=None,
                not_printed=True,
                table="Figure 19",
                note="A point of a figure, whose value is not printed.",
                column="",
            )
            yield point
            if "cnn" in column:
                yield point.measuring(
                    "lambda1",
                    "lambda_1",
                    PublishedCell(None),
                    method=point.method + MEAN_OF_LAST,
                    not_printed=True,
                )
