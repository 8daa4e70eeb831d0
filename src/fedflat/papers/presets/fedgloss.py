"""FedGloSS and its baselines on CIFAR.

Caldarola et al., Beyond Local Sharpness: Communication-Efficient Global Sharpness-aware
Minimization for Federated Learning, CVPR 2025, arXiv:2412.03752.

    fedgloss/cifar10-cnn-alpha0-fedgloss            Tables 3 and 6, local SAM; ...-sgd: local SGD
    fedgloss/cifar10-cnn-alpha0-naive-fedgloss      Table 6
    fedgloss/cifar10-cnn-alpha0-feddyn-sam          other rows of Table 3; Table 9 (alpha 100, 1000)
    fedgloss/cifar10-cnn-alpha100-fedgloss-noadmm   Table 9, without duals
    fedgloss/cifar100-resnet18-alpha0.5-fedgloss    ResNet-18
    fedgloss/landmarks-fedgloss                     Table 4
    fedgloss/cifar10-cnn-alpha0-fedprox-rounds      Tables 5 and 10: rounds to FedAvg's accuracy;
                                                    ...-cost: traffic in B; ...-speedup: Table 10
    fedgloss/cifar10-cnn-alpha0-fedgloss-half       Table 6: accuracy after half of the rounds
    fedgloss/cifar10-cnn-alpha0-fedgloss-lambda1    Tables 6, 8 and 9
    fedgloss/cifar10-cnn-alpha0-fedsam-local        Table 1: lambda_1 of clients' models on their
                                                    own data, ...-global: on everyone's
    fedgloss/cifar10-centralised-sam                Table 6
    fedgloss/cifar100-cnn-alpha0-rhos0.1            Figure 19: the server's radius
    fedgloss/cifar10-cnn-alpha0                     the column's main run, FedGloSS with local SAM
    ...-repo                                        the same as the released code runs it

Numbers are means of the last 100 rounds over the seeds 0, 42 and 200299; X: no convergence.

The code differs from the paper in three ways, which ``-repo`` follows. All images of a batch have
the same crop and flip, since they are augmented as one tensor (``augment="fedgloss"``). The server
dual is also divided by the cohort's size (``dual_scale="repo"``). While the local radius is warmed
up, the server's radius is about the local one (``server_rho="repo"``): 0.2 instead of 0.01 in the
first 15,000 rounds on CIFAR-100. Local SGD has no radius to warm up. The code also has FedAvg and
FedSAM. It does not have the other baselines, which have no ``-repo``. It has neither the naive form
nor those without duals: their ``-repo`` is composed of what it has. The hyper-parameters are those
marked in the paper's Table 13, or the last of a list if none is marked.

With the same printed settings, methods of both papers have other numbers here than in ECCV 2022
(FedAvg on CIFAR-10 with alpha 0: 59.9 here, 65.00 there, whose code augments each image on its
own). Each paper's own table is the one to compare with.

Eigenvalues of the global model are those of the mean of the last 100 global models on the test set,
as in the code (WiMA with a window of 100). Table 1 has the five clients of the last round; its
numbers here are the means of the five that are printed, compared with the mean over a cohort that
trains from the last model. FedAvg's own rows of Tables 5 and 10 are its length by definition and
have no preset. The settings of the centralised runs of Table 6 are not printed: 300 epochs with
momentum 0.9 and a cosine are used. On Landmarks-User-160k the network starts from weights that were
trained on ImageNet, which are not published: give your own with ``--init``.

Everything but Table 3 and the accuracies of Tables 6 and 9 is in
`fedflat.papers.presets.fedgloss_more`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fedflat.papers.presets.preset import Preset, PublishedCell, rows

TABLE_3 = """
    fedavg        59.9±0.4  65.7±1.0  28.6±0.7  38.5±0.5  72.6±0.1  37.4±0.2
    fedprox       59.8±0.5  65.6±1.0  28.8±0.7  38.7±0.4  72.2±0.2  37.6±0.1
    feddyn        65.5±0.3  70.1±1.2         X         X  70.2±0.6  38.8±0.6
    scaffold      25.1±3.7  54.0±2.6         X  30.0±1.1  70.8±0.6  38.6±0.1
    fedgloss-sgd  69.5±0.4  75.5±0.3  42.5±0.6  47.9±0.5  79.1±0.5  46.7±0.6
    fedsam        70.2±0.9 71.5±1.08  28.7±0.5  39.6±0.5  72.8±0.1  38.5±0.1
    feddyn-sam    79.3±3.1  81.5±0.6         X         X  72.6±0.2  39.6±0.8
    fedspeed      70.9±0.4  72.3±1.1  28.9±0.5  39.7±0.5  72.6±0.1  38.8±0.6
    fedgamma      58.9±1.8  61.9±1.8         X  29.4±1.4  72.2±0.1  38.8±0.3
    fedsmoo       81.3±0.5  82.8±0.6  47.8±0.5 51.7±0.46  75.3±0.6  44.8±0.5
    fedgloss      83.9±0.4(78.9±0.5)  84.4±0.5(79.7±0.4)  50.6±0.6(39.5±0.9)  53.4±0.5(47.2±1.1)  80.0±0.3  47.2±0.2"""
"""In brackets, for FedGloSS: the number of Table 6 after half of the rounds."""
COLUMNS_3 = (
    "cifar10-cnn-alpha0", "cifar10-cnn-alpha0.05", "cifar100-cnn-alpha0", "cifar100-cnn-alpha0.5",
    "cifar10-resnet18-alpha0.05", "cifar100-resnet18-alpha0.5",
)  # fmt: skip

TABLE_6 = """
    naive-fedgloss  83.9±0.2(77.6±0.3)  84.4±0.2(78.7±0.1)  50.8±0.1(42.6±0.8)  53.7±0.3(49.4±0.5)"""
"""The other rows are those of Table 3."""

TABLE_9 = """
    fedavg                84.0  50.1
    fedsam                84.7  53.4
    feddyn                83.8  51.9
    feddyn-sam            84.5  52.5
    fedsmoo               85.1  53.9
    fedgloss-sgd-noadmm   84.0  50.5
    fedgloss-sgd          83.1  51.7
    fedgloss-noadmm       84.8  55.8
    fedgloss              84.8  55.7"""
COLUMNS_9 = ("cifar10-cnn-alpha100", "cifar100-cnn-alpha1000")

CHOSEN: dict[str, dict[str, Any]] = {
    "cifar10-cnn": {
        "sam": 0.15, "prox": 0.1, "dyn_sam": 0.15, "lam": 100, "smoo": "rho=0.15, beta=10",
        "rho_s": 0.15, "rho_l": 0.15, "beta": 10, "T_s": 2000,
    },
    "cifar100-cnn": {
        "sam": 0.01, "prox": 0.1, "dyn_sam": 0.02, "lam": 1000, "smoo": "rho=0.1, beta=100",
        "rho_s": 0.01, "rho_l": 0.2, "beta": 100, "T_s": 15000,
    },
    "cifar10-resnet18": {
        "sam": 0.01, "prox": 0.01, "dyn_sam": 0.01, "lam": 1000, "smoo": "rho=0.01, beta=5",
        "rho_s": 0.01, "rho_l": 0.01, "beta": 1, "T_s": 0,
    },
    "cifar100-resnet18": {
        "sam": 0.01, "prox": 0.1, "dyn_sam": 0.01, "lam": 1000, "smoo": "rho=0.01, beta=10",
        "rho_s": 0.01, "rho_l": 0.01, "beta": 100, "T_s": 0,
    },
    "landmarks": {
        "sam": 0.05, "prox": 0.1, "dyn": 0.001, "dyn_sam": 0.05, "lam": 1000, "smoo": "rho=0.1, beta=50",
        "rho_s": 0.005, "rho_l": 0.3, "beta": 50, "T_s": 0,
    },
}  # fmt: skip
"""Hyper-parameters: radius of FedSAM, FedSpeed and FedGamma; FedProx's mu; and so on."""

SETTINGS = {
    "local_epochs": 1, "batch_size": 64, "lr": 0.01, "eval_every": 100, "eval_last": 100, "on_bad": "stop",
}  # fmt: skip
CNN = {"clients_per_round": 5, "weight_decay": 4e-4}
RESNET = {"clients_per_round": 10, "weight_decay": 1e-5, "momentum": 0.7}
VARIATES = ("scaffold", "fedgamma")
"""Methods whose control variates are updates divided by steps and rate, without momentum."""
NO_MOMENTUM = "Without the paper's momentum of 0.7, with which control variates are not defined."


def presets() -> Iterator[Preset]:
    """Return the presets of Table 3, and of the accuracies of Tables 6 and 9."""
    for table, numbers, columns in (
        ("Table 3", TABLE_3, COLUMNS_3), ("Table 6", TABLE_6, COLUMNS_3[:4]), ("Table 9", TABLE_9, COLUMNS_9),
    ):  # fmt: skip
        for row, cells in rows(numbers, *columns):
            for column, cell in cells.items():
                yield from _runs(column, row, cell, table)


def _runs(column: str, row: str, cell: PublishedCell, table: str) -> Iterator[Preset]:
    """Return the run of the paper and, if the released code has the method, that of the code."""
    data, network, alpha = column.split("-")
    chosen = CHOSEN[f"{data}-{network}"]
    plain = network == "resnet18" and row in VARIATES
    note = NO_MOMENTUM if plain else ""
    half = f"{cell.aside.replace('±', ' ± ')} after half of the rounds." if cell.aside else note
    released = row in ("fedavg", "fedsam") or "fedgloss" in row
    for repo in (False, True)[: 2 if released else 1]:
        ending, alike = ("-repo", ", augment='fedgloss'") if repo else ("", "")
        yield Preset(
            name=f"fedgloss/{column}-{row}{ending}",
            method=method_of(row, chosen, repo=repo),
            on=(
                f"{data}(lda({alpha.removeprefix('alpha')}), clients=100, "
                f"normalise='fedgloss'{alike})"
            ),
            model=f"{network}()",
            rounds=20_000 if (data, network) == ("cifar100", "cnn") else 10_000,
            settings=SETTINGS
            | (CNN if network == "cnn" else RESNET)
            | ({"momentum": 0.0} if plain else {}),
            reported=cell.value,
            spread=cell.spread,
            table=table,
            note="As the released code runs it." if repo else half,
            column=f"fedgloss/{column}{ending}" if row == "fedgloss" else "",
            seeds=(0, 42, 200299),
        )


def method_of(row: str, chosen: dict[str, Any], *, repo: bool) -> str:
    if "fedgloss" in row:
        return _fedgloss(row, chosen, repo)
    rho = chosen["sam"]
    return {
        "fedavg": "fedavg()",
        "fedprox": f"fedprox(mu={chosen['prox']})",
        "feddyn": f"feddyn(alpha={chosen.get('dyn', 0.01)})",
        "scaffold": "scaffold()",
        "fedsam": f"fedsam(rho={rho})",
        "feddyn-sam": f"feddyn(alpha={chosen.get('dyn', 0.01)}) + sam(rho={chosen['dyn_sam']})",
        "fedspeed": f"fedspeed(rho={rho}, a=0.95, lam={chosen['lam']})",
        "fedgamma": f"fedgamma(rho={rho})",
        "fedsmoo": f"fedsmoo({chosen['smoo']})",
    }[row]


def _fedgloss(row: str, chosen: dict[str, Any], repo: bool) -> str:
    """Return FedGloSS in one of its forms: local SGD or SAM, with or without duals, naive."""
    warm, dual = chosen["T_s"], "noadmm" not in row
    arguments = [f"rho_s={chosen['rho_s']}"]
    if "sgd" not in row:
        naive = "naive" in row and warm
        arguments.append(
            f"rho_l=warmup(0.001, {chosen['rho_l']}, {warm})"
            if naive
            else f"rho_l={chosen['rho_l']}"
        )
    arguments.append(f"beta={chosen['beta']}" if dual else "admm=False")
    scheduled = warm and row in ("fedgloss", "fedgloss-noadmm")
    if scheduled:
        arguments.append(f"T_s={warm}")
    if repo and dual:
        arguments.append("dual_scale='repo'")
    if repo and scheduled:
        arguments.append("server_rho='repo'")
    return f"{'naive_' if 'naive' in row else ''}fedgloss({', '.join(arguments)})"
