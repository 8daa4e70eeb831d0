"""FedFSA and its baselines with personalized evaluation, on images.

Xing et al., Flexible Sharpness-Aware Personalized Federated Learning, AAAI 2025.

    fedfsa/fmnist-pat5-fedfsa          Table 1; pat: classes per client, dir: Dirichlet
    fedfsa/cifar100-dir0.1-mofedsam    Tables 1 and 2
    fedfsa/fmnist-pat5                 the column's main run, FedFSA
    ...-fedfsa-mse                     layers ranked by the plain mean squared change
    ...-fedspeed-repo                  FedSpeed of the released code (FedDyn's server, ``a = 1``)
    fedfsa/tiny-pat50-fedfsa           Tiny-ImageNet; ...-50clients-...: Table 2
    fedfsa/cifar100-dir0.3-fedala-fsa  Figure 3a: FSA on other methods
    fedfsa/cifar100-resnet18-dir0.3-mofedsam-rho0.3     Figure 3b: ResNet-18 with batch norm
    fedfsa/cifar100-dir0.3-top2-rho0.5                  Figure 4: radius and number of layers
    fedfsa/cifar10-resnet18-dir0.3-reverse              Figure 5: which layers are selected
    fedfsa/cifar100-dir0.3-fedfsa-local                 layers ranked by Eq. 8

Numbers are those of the best round (including the fine-tuning after the last one) of the mean over
all clients of the accuracy of each client's own last model, ``personal`` in the results, over the
seeds 23, 100 and 200. The paper prints nothing for the global model. It is evaluated every ten
rounds.

Eq. 11 of the paper ranks layers by a squared change without saying how it becomes one number per
layer; like the code we take the mean over min-max scaled tensors. In its FedSpeed and FedSMOO the
rate of each client falls by 0.998 in every local epoch: with 10 epochs in one round out of ten that
is 0.998 per round on average, which we use. The code's FedSMOO reads its duals from wrong positions
of a vector (no preset does). The radius of FedSAM is not printed: 0.1, as MoFedSAM's; nor is
FedSpeed's ``a``: 0.95. The threshold of FedALA is that of the code.

Also from the code: on Fashion-MNIST the convolutions have 4 and 12 channels, not 64, and pixels are
scaled to -1 ... 1. With a Dirichlet partition clients take examples in turns. By a mistake in the
code they take none of the first class before all others are used, which we do not copy.

On Tiny-ImageNet the code has its own network and pixels from -1 to 1. With 50 clients 10 train in a
round, as with 100; the paper does not say. In Figure 3a the paper enters FedFSA's own number for
FedAvg-FT and for MoFedSAM with FSA, so these are FedFSA's run. FSA on FedSpeed is FedDyn with FSA's
radii, as in the code. Which values Figure 4 shows is not printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fedflat.papers.presets.preset import Preset, PublishedCell, rows

TABLE_1 = """
    fedavg-ft 92.51±0.21 91.59±0.47 81.79±0.61 81.41±0.77 53.70±0.26 41.09±0.14
    fedcr     93.67±0.11 92.43±0.41 84.00±0.14 83.49±0.32 59.91±0.35 42.74±0.39
    fedala    92.99±0.22 91.83±0.39 81.62±1.08 81.76±0.53 54.92±0.20 39.75±1.07
    fedsam    93.01±0.11 91.89±0.39 84.16±0.20 83.84±0.44 59.41±0.39 44.66±0.40
    mofedsam  93.79±0.21 92.94±0.27 88.33±0.14 88.16±0.25 70.33±0.29 51.02±2.21
    fedsmoo   93.51±0.05 92.46±0.19 87.22±0.16 87.03±0.24 66.56±0.68 52.34±1.17
    fedspeed  93.68±0.15 92.88±0.20 88.24±0.37 87.99±0.25 68.24±0.15 52.61±0.55
    fedfsa    93.78±0.11 92.88±0.35 88.64±0.09 88.37±0.27 72.28±0.40 60.87±0.61"""
COLUMNS_1 = (
    "fmnist-pat5",
    "fmnist-dir0.5",
    "cifar10-pat5",
    "cifar10-dir0.5",
    "cifar100-pat15",
    "cifar100-dir0.3",
)

TABLE_1_TINY = """
    fedavg-ft 23.03±0.46 20.75±0.35
    fedcr     23.71±0.78          -
    fedsam    28.98±0.15 25.55±0.53
    mofedsam  33.80±0.29 28.02±0.60
    fedsmoo   26.29±0.02 21.96±0.04
    fedspeed  29.60±0.28 24.92±0.43
    fedfsa    41.39±0.25 33.76±0.93"""
COLUMNS_TINY = ("tiny-pat50", "tiny-dir0.3")

TABLE_2_TINY = """
    fedavg-ft 22.24±0.39
    fedcr     28.62±0.39
    fedsam    26.73±0.12
    mofedsam  28.56±0.38
    fedsmoo   25.87±0.27
    fedspeed  31.60±0.25
    fedfsa    36.90±0.43"""
"""50 clients; the column with 100 clients is that of Table 1."""

TABLE_2 = """
    fedavg-ft 52.92±0.46 34.58±0.50
    fedcr     55.87±0.44 30.31±0.36
    fedala    52.56±1.32 34.72±0.63
    fedsam    58.42±1.08 37.40±0.24
    mofedsam  66.79±0.75 44.41±0.59
    fedsmoo   65.85±0.71 46.58±0.52
    fedspeed  65.98±0.91 46.19±0.56
    fedfsa    67.73±0.69 52.49±0.35"""
COLUMNS_2 = ("cifar100-dir0.1", "cifar100-dir1")

SETTINGS = {
    "clients_per_round": 10, "local_epochs": 10, "batch_size": 48, "lr": 0.1, "clip": 10.0, "weighting": "uniform",
    "eval_every": 10, "eval_last": 1, "on_bad": "stop",
}  # fmt: skip
NAMES = {
    "fmnist": "fashion_mnist",
    "cifar10": "cifar10",
    "cifar100": "cifar100",
    "tiny": "tiny_imagenet",
}
COLOURS = {
    "fmnist": ", normalise='fedfsa'",
    "cifar10": ", normalise='fedgloss'",
    "cifar100": "",
    "tiny": ", normalise='fedfsa'",
}
"""The constants of the code, those of CIFAR to three digits."""
RADII = {
    "fmnist": "rho=0.1, rho_larger=0.2",
    "cifar10": "rho=0.1, rho_larger=0.2",
    "cifar100": "rho=0.05, rho_larger=0.9",
    "tiny": "rho=0.05, rho_larger=0.9",
}
METHODS = {
    "fedavg-ft": "fedavg_ft()",
    "fedcr": "fedcr() + personal()",
    "fedala": "fedala(share=0.8, layers=2, threshold=0.01) + personal()",
    "fedsam": "fedsam(rho=0.1) + personal()",
    "mofedsam": "mofedsam(rho=0.1, a=0.1) + personal()",
    "fedsmoo": "fedsmoo(rho=0.1, beta=10) + personal()",
    "fedspeed": "fedspeed(rho=0.1, lam=10) + personal()",
    "fedspeed-repo": "fedspeed(rho=0.1, lam=10, server='feddyn') + personal()",
    "fedfsa": "fedfsa({radii}, top=2, a=0.1) + personal()",
    "fedfsa-mse": "fedfsa({radii}, top=2, a=0.1, score='mse') + personal()",
}
NOTES = {
    "fedcr": "The code of the paper has no FedCR; the settings are FedCR's own.",
    "fedala": "The threshold is that of the code.",
    "fedsam": "The radius is not printed.",
    "fedsmoo": "The code's version reads its duals from the wrong places.",
    "fedspeed-repo": "As the released code runs it.",
    "fedfsa-mse": "Eq. 11 read as a plain mean squared change.",
}


def presets() -> Iterator[Preset]:
    for table, numbers, columns in (
        ("Table 1", TABLE_1, COLUMNS_1),
        ("Table 1", TABLE_1_TINY, COLUMNS_TINY),
        ("Table 2", TABLE_2, COLUMNS_2),
        ("Table 2", TABLE_2_TINY, ("tiny-dir0.3-50clients",)),
    ):
        for row, cells in rows(numbers, *columns):
            for column, cell in cells.items():
                for method in (
                    word for word in METHODS if word in (row, f"{row}-repo", f"{row}-mse")
                ):
                    yield _run(column, method, cell, table)
    for figure, column, row, method, model in _figures():
        run = _run(column, "fedfsa", PublishedCell(None), figure)
        slower = {"lr": "decay(0.1, 0.998)"} if row == "fedspeed-fsa" else {}
        network = "" if model is None else "-resnet18"
        data, split = column.split("-")
        yield replace(
            run,
            name=f"fedfsa/{data}{network}-{split}-{row}",
            method=f"{method} + personal()",
            model=model or run.model,
            settings={**run.settings, **slower},
            not_printed=True,
            note="Of a figure, whose values are not printed.",
            column="",
        )


RESNET = "resnet18(norm='batch')"
RADII_3B = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
RADII_4 = (0.1, 0.3, 0.5, 0.7, 0.9, 1.1)
TOPS_4 = (1, 2, 3, 4, 5)


def _figures() -> Iterator[tuple[str, str, str, str, str | None]]:
    """Return figure, column, row, method and network of each run; no network means the CNN."""
    hundred = "cifar100-dir0.3"
    ascent = f"fsa({RADII['cifar100']}, top=2)"
    yield "Figure 3a", hundred, "fedsam-fsa", ascent, None
    fedala = "fedala(share=0.8, layers=2, threshold=0.01)"
    yield "Figure 3a", hundred, "fedala-fsa", f"{fedala} + {ascent}", None
    speed = "fedspeed(rho=0.1, lam=10, server='feddyn')"
    yield "Figure 3a", hundred, "fedspeed-fsa", f"{speed} + {ascent}", None
    yield "Figure 3b", hundred, "fedfsa", _fedfsa("rho=0.05, rho_larger=1.0, top=5"), RESNET
    for rho in RADII_3B:
        method = f"mofedsam(rho={rho}, a=0.1)"
        yield "Figure 3b", hundred, f"mofedsam-rho{rho}", method, RESNET
    for column in (hundred, "fmnist-dir0.5"):
        for top in TOPS_4 if column == hundred else (2,):
            for rho in RADII_4:
                method = _fedfsa(f"rho=0.05, rho_larger={rho}, top={top}")
                yield "Figure 4", column, f"top{top}-rho{rho}", method, None
    for column in ("cifar10-dir0.3", hundred):
        for model in (None, RESNET):
            radii = "rho=0.05, rho_larger=1.0, top=5"
            radii = f"{RADII[column.split('-')[0]]}, top=2" if model is None else radii
            for word in ("fsa", "random", "reverse"):
                selection = "" if word == "fsa" else f", selection='{word}'"
                yield "Figure 5", column, word, _fedfsa(radii, selection), model
    local = _fedfsa(f"{RADII['cifar100']}, top=2", ", score='local'")
    yield "Equation 8", hundred, "fedfsa-local", local, None


def _fedfsa(radii: str, more: str = "") -> str:
    return f"fedfsa({radii}, a=0.1{more})"


def _run(column: str, row: str, cell: PublishedCell, table: str) -> Preset:
    data, split, *people = column.split("-")
    clients = people[0].removesuffix("clients") if people else "100"
    kind, amount = split[:3], split[3:]
    dirichlet = f"lda({amount}, concentration='component', in_turns=True)"
    partition = f"pathological({amount})" if kind == "pat" else dirichlet
    model = {
        "fmnist": "fsa_cnn(channels=[4, 12])",
        "tiny": "fsa_cnn(channels=[32, 32], hidden=[512, 1024])",
    }.get(data, "fsa_cnn()")
    return Preset(
        name=f"fedfsa/{column}-{row}",
        method=METHODS[row].format(radii=RADII[data]),
        on=f"{NAMES[data]}({partition}, clients={clients}, split=0.7, pool=True{COLOURS[data]})",
        model=f"stochastic(body={model})" if row == "fedcr" else model,
        rounds=250 if data == "fmnist" else 500,
        settings=SETTINGS
        | ({"lr": "decay(0.1, 0.998)"} if row.startswith(("fedspeed", "fedsmoo")) else {}),
        reported=cell.value,
        spread=cell.spread,
        table=table,
        note=NOTES.get(row, ""),
        column=f"fedfsa/{column}" if row == "fedfsa" else "",
        seeds=(23, 100, 200),
        measure="personal",
    )
