"""FedGMT and its baselines on CIFAR-10 with a small CNN.

Li et al., One Arrow, Two Hawks: Sharpness-aware Minimization for Federated Learning via Global
Model Trajectory, ICML 2025; the table on the page of its code, FL-SAM.

    flsam/cifar10-dir0.1-fedgmt        Table README; iid, dir: Dirichlet
    flsam/cifar10-dir0.1               the column's main run, FedGMT
    flsam/cifar10-dir0.1-feddyn-repo   the proximal term of FedDyn as in the released code

Numbers are the mean of the last 50 of 500 rounds. The page prints no standard deviation and one
seed, 1. The network has two padded 5x5 convolutions of 32 and 64 channels and a linear layer of
512: ``mcmahan_cnn()``. Padding is that of FedScar, whose code is derived from FL-SAM.

The page prints a penalty coefficient of 10 for all methods with a proximal term, which divides:
``alpha`` of FedDyn and FedLESAM-D is 0.1. It prints the radii 0.001, 0.01 and 0.1 for all columns
together, and says nowhere which one a number has: here 0.1 for all. FedGMT's ``alpha`` and
``gamma`` are chosen from three values each; here they are those of the page's example, 0.95 and 1.
FedSpeed's ``a`` is not printed: 0.95. The rate falls by 0.998 per round as in the code.

In the code, a proximal term is half the distance to the model that was sent, not half its square;
``-repo`` is that of FedDyn. The terms of FedSpeed and FedLESAM-D are of the same form there, and
FedLESAM-D perturbs every tensor by the first entries of the last update; no preset has these two. In
FedScar FedSpeed has the squared distance.
The code crops and flips all images of a batch alike, after normalization: ``augment='fedgloss'``,
whose border is black, while the code's has the mean colour. How its Dirichlet partition treats
sizes is not printed: here clients have equal sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedflat.papers.presets.preset import Preset, PublishedCell, rows

TABLE = """
    fedavg     77.71 75.96 71.68 63.27
    feddyn     77.94 78.08 76.71 73.06
    fedsam     80.68 78.33 72.27 63.80
    fedspeed   81.63 81.66 77.90 74.24
    fedsmoo    81.24 80.98 78.28 75.28
    fedlesam-d 77.71 78.69 76.85 72.71
    fedgmt     81.62 81.92 79.45 76.36"""
COLUMNS = ("cifar10-iid", "cifar10-dir1", "cifar10-dir0.1", "cifar10-dir0.01")

METHODS = {
    "fedavg": "fedavg()",
    "feddyn": "feddyn(alpha=0.1)",
    "feddyn-repo": "feddyn(alpha=0.1, penalty='distance')",
    "fedsam": "fedsam(rho=0.1)",
    "fedspeed": "fedspeed(rho=0.1, lam=10)",
    "fedsmoo": "fedsmoo(rho=0.1, beta=10)",
    "fedlesam-d": "fedlesam_d(rho=0.1, alpha=0.1)",
    "fedgmt": "fedgmt(alpha=0.95, gamma=1, beta=10, T=3)",
}
RADIUS = "The radius is one of 0.001, 0.01 and 0.1; which one is not printed."
NOTES = {
    "feddyn-repo": "As the released code runs it.",
    "fedsam": RADIUS,
    "fedspeed": RADIUS,
    "fedsmoo": RADIUS,
    "fedlesam-d": RADIUS,
    "fedgmt": "alpha and gamma are those of the page's example.",
}
SETTINGS = {
    "clients_per_round": 10, "local_epochs": 5, "batch_size": 50, "lr": "decay(0.01, 0.998)", "momentum": 0.9,
    "weight_decay": 1e-5, "eval_every": 1, "eval_last": 50, "on_bad": "stop",
}  # fmt: skip


def presets() -> Iterator[Preset]:
    for row, cells in rows(TABLE, *COLUMNS):
        for column, cell in cells.items():
            for method in (word for word in METHODS if word in (row, f"{row}-repo")):
                yield _run(column, method, cell)


def _run(column: str, row: str, cell: PublishedCell) -> Preset:
    split = column.split("-")[1]
    partition = "iid()" if split == "iid" else f"lda({split[3:]}, concentration='component')"
    return Preset(
        name=f"flsam/{column}-{row}",
        method=METHODS[row],
        on=f"cifar10({partition}, clients=100, augment='fedgloss')",
        model="mcmahan_cnn()",
        rounds=500,
        settings=SETTINGS,
        reported=cell.value,
        table="Table README",
        note=NOTES.get(row, ""),
        column=f"flsam/{column}" if row == "fedgmt" else "",
        seeds=(1,),
    )
