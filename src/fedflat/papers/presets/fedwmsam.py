"""FedWMSAM and its baselines on Fashion-MNIST and CIFAR-10.

Li et al., A Fast and Flat Federated Learning Method via Weighted Momentum and Sharpness-Aware
Minimization, NeurIPS 2025, arXiv:2511.22080.

    fedwmsam/fmnist-dir0.1-fedwmsam       Table 1; dir: Dirichlet, pat: classes per client
    fedwmsam/cifar10-pat3-mofedsam        the same on CIFAR-10
    fedwmsam/fmnist-dir0.1                the column's main run, FedWMSAM
    ...-repo                              FedWMSAM and FedLESAM as in the released code

Numbers are those after 500 rounds of the server's model. Here are five rows of the table. Its
number for FedLESAM is the best of FedLESAM, FedLESAM-S and FedLESAM-D; which one is not noted, and
the preset is FedLESAM.

The code grew from FL-Simulator. Radii and weights of the baselines are the defaults of its command
line. Clients are drawn independently of each other (``bernoulli``) and count equally. A client
draws its classes for each image, and an image can be at several clients once a class is used up;
here clients take their images in turns and no image twice. With ``pat`` each client has random
classes there; here each class has equally many clients. On CIFAR-10 the network is torchvision's
ResNet-18 with GroupNorm (``stem='large'``), and every other image is cropped (``augment='feddyn'``).
On Fashion-MNIST it is the code's network for MNIST, two layers of 200; the code's command line has
no Fashion-MNIST, so its normalization is ours.

In the code, FedWMSAM's perturbation has the opposite sign, and FedWMSAM and FedLESAM index the flat
update by the number of the tensor: ``flavour='repo'``.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedflat.papers.presets.preset import Preset, PublishedCell, rows

TABLE_1 = """
    fedavg   86.84 82.26 86.25 81.50 78.86 70.05 78.73 64.26
    mofedsam 82.78 74.89 81.41 68.22 83.39 73.86 83.34 73.27
    fedsmoo  88.46 83.37 87.45 82.96 84.10 75.07 83.82 70.99
    fedlesam 86.89 83.75 87.32 82.09 81.65 72.84 81.27 63.81
    fedwmsam 87.56 84.64 88.05 85.31 83.56 76.64 84.43 74.46"""
SPLITS = ("dir0.6", "dir0.1", "pat6", "pat3")
COLUMNS = tuple(f"{data}-{split}" for data in ("fmnist", "cifar10") for split in SPLITS)

METHODS = {
    "fedavg": "fedavg()",
    "mofedsam": "mofedsam(rho=0.1, a=0.1)",
    "fedsmoo": "fedsmoo(rho=0.1, beta=10)",
    "fedlesam": "fedlesam(rho=0.1)",
    "fedlesam-repo": "fedlesam(rho=0.1, flavour='repo')",
    "fedwmsam": "fedwmsam(rho=0.01, a=0.1, lam=0.01)",
    "fedwmsam-repo": "fedwmsam(rho=0.01, a=0.1, lam=0.01, flavour='repo')",
}
BEST = "The number is the best of FedLESAM, FedLESAM-S and FedLESAM-D."
NOTES = {
    "fedlesam": BEST,
    "fedlesam-repo": f"As the released code runs it. {BEST}",
    "fedwmsam-repo": "As the released code runs it.",
}
SETTINGS = {
    "clients_per_round": 10, "sampler": "bernoulli", "local_epochs": 5, "batch_size": 50, "lr": "decay(0.1, 0.998)",
    "weight_decay": 1e-3, "clip": 10.0, "weighting": "uniform", "eval_every": 10, "eval_last": 1, "on_bad": "stop",
}  # fmt: skip


def presets() -> Iterator[Preset]:
    for row, cells in rows(TABLE_1, *COLUMNS):
        for column, cell in cells.items():
            for method in (word for word in METHODS if word in (row, f"{row}-repo")):
                yield _run(column, method, cell)


def _run(column: str, row: str, cell: PublishedCell) -> Preset:
    data, split = column.split("-")
    dirichlet = f"lda({split[3:]}, concentration='component', in_turns=True)"
    partition = dirichlet if split.startswith("dir") else f"pathological({split[3:]})"
    cifar = data == "cifar10"
    more = ", normalise='fedgloss', augment='feddyn'" if cifar else ""
    main = row.startswith("fedwmsam")
    return Preset(
        name=f"fedwmsam/{column}-{row}",
        method=METHODS[row],
        on=f"{'cifar10' if cifar else 'fashion_mnist'}({partition}, clients=100{more})",
        model="resnet18(stem='large')" if cifar else "mlp(hidden=[200, 200])",
        rounds=500,
        settings=SETTINGS,
        reported=cell.value,
        table="Table 1",
        note=NOTES.get(row, ""),
        column=f"fedwmsam/{column}{row.removeprefix('fedwmsam')}" if main else "",
        seeds=(20,),
    )
