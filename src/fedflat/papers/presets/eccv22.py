"""FedSAM, FedASAM and server-side SWA on CIFAR.

Caldarola, Caputo and Ciccone, Improving Generalization in Federated Learning by Seeking Flat
Minima, ECCV 2022, arXiv:2203.11834.

    eccv22/cifar100-alpha0.5-fedasam-swa        Tables 2 and 6; 5 clients per round by default
    eccv22/cifar100-alpha0.5-10clients-fedasam-swa
    eccv22/cifar100-alpha0.5-fedasam-swa1       Table 14: averaging in every round, constant rate
    eccv22/cifar100-alpha0.5-fedasam-cyclic     Table 14: cyclic rate, no averaging
    eccv22/cifar100-alpha0-server-adam0.1       Table 13: server optimisers as in torch, their rate
    eccv22/cifar100-pam-e2-20clients-fedsam-mixup-swa    Table 3; default: 1 epoch, 10 clients
    eccv22/cifar100-pam-fedsam-at5k             Table 3 after 5,000 rounds
    eccv22/cifar100-alpha0.5-fedasam-mixup-swa  Tables 4 and 17
    eccv22/cifar100-alpha0-fedavg-swa-from25    Table 15: SWA after 25 % of the rounds
    eccv22/cifar100-alpha0-fedasam-lambda1      Table 1, and ...-ratio for lambda_1/lambda_5
    eccv22/cifar100-centralised-sam-swa         Tables 5 and 16
    eccv22/cifar10-alpha0-20clients-fedavgm-sam     Table 4.6 of Caldarola's thesis: server momentum
    eccv22/landmarks-fedasam-swa                Table 7; ...-swa100: averaging after the last round
    eccv22/cifar100-alpha0-fedsam-rho0.1        Figure 9: radii of SAM and ASAM, eta of ASAM
    eccv22/cifar100-alpha0.5                    the column's main run, FedASAM + SWA

Numbers are means of the last 100 rounds. Cohorts depend on the round only, as in the released code.

Where the sources disagree: SWA starts after 75 % of the rounds and counts cycles from there, as Eq.
8 and the code do (Algorithm 1 counts ``t/c``; Table 12 prints a start in round 15,000 for the
10,000 rounds of PAM). On PAM the cycle has 5 rounds (Table 12), though the text says "as
CIFAR-100", which is 20. Cutout has 8 pixels on CIFAR-100 in the text and 16 in the code: the latter
is ``...-cutout-repo``. The code captures SWA's models one round later, at the largest rate of the
next cycle: no preset does that.

No gradient is clipped, since the paper prints no limit; FedDyn's own code clips at a norm of 10
(``--clip 10``), which matters most where FedDyn's weights diverge.

Of Table 1 the paper does not say on which examples the Hessian is: here on those for training. Of
the centralised runs it prints no settings: here 300 epochs with momentum 0.9 and a cosine, as in
FedSeq's. On Landmarks-User-160k, ASAM's eta is 0 or 0.2: here 0.2; how many rounds follow after
round 5,000 for SWA "from 100 %" is not printed: here 1,250. The network starts from weights that
were trained on ImageNet, which are not published: give your own with ``--init``.

Table 8, driving scenes, is in `fedflat.papers.presets.feddrive`; Tables 1, 4, 5, 7, 15 to 17,
4.6 and Figure 9 are in `fedflat.papers.presets.eccv22_more`.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedflat.papers.presets.feddrive import scene_presets
from fedflat.papers.presets.preset import Preset, PublishedCell, rows

TABLE_2 = {
    "cifar10": """
    fedavg      65.00 65.54 68.52 69.24 72.50 73.07 84.46 84.50 84.59
    fedavg+e2   61.49 62.22 66.36 69.23 69.77 73.48 83.93 84.10 84.21
    fedsam      70.16 71.09 72.90 73.52 74.81 76.04 84.58 84.67 84.82
    fedasam     73.66 74.10 76.09 75.61 76.22 76.98 84.77 84.72 84.75
    fedavg+swa  69.71 69.54 70.19 73.48 72.80 73.81 84.35 84.32 84.47
    fedsam+swa  74.97 73.73 73.06 76.61 75.84 76.22 84.23 84.37 84.63
    fedasam+swa 76.44 75.51 76.36 76.12 76.16 76.86 84.88 84.80 84.79""",
    "cifar100": """
    fedavg      30.25 36.74 38.59 40.43 41.27 42.17 49.92 50.25 50.66
    fedavg+e2   24.94 31.81 35.18 38.21 39.59 40.94 48.72 48.64 48.45
    fedsam      31.04 36.93 38.56 44.73 44.84 46.05 54.01 53.39 53.97
    fedasam     36.04 39.76 40.81 45.61 46.58 47.78 54.81 54.97 54.50
    fedavg+swa  39.34 39.74 39.85 43.90 44.02 42.09 50.98 50.87 50.92
    fedsam+swa  39.30 39.51 39.24 47.96 46.76 46.47 53.90 53.67 54.36
    fedasam+swa 42.01 42.64 41.62 49.17 48.72 48.27 53.86 54.79 54.10""",
}
"""Alpha 0, middle, IID; each with 5, 10 and 20 clients per round."""

TABLE_14 = {
    "cifar10": """
    fedavg+swa1    69.88 69.83 70.72 73.91 73.12 73.07 84.90 84.47 84.67
    fedsam+swa1    75.17 74.00 73.53 76.93 76.06 76.55 84.53 84.54 84.77
    fedasam+swa1   76.80 75.48 76.84 76.87 76.30 77.55 85.09 85.06 84.73
    fedavg+cyclic  61.41 63.96 67.39 67.17 69.88 72.19 84.18 84.15 84.45
    fedsam+cyclic  70.66 71.14 73.04 73.93 74.96 76.20 84.23 84.40 84.69
    fedasam+cyclic 75.07 74.87 76.37 75.37 76.17 77.14 84.68 84.72 84.71""",
    "cifar100": """
    fedavg+swa1    38.86 39.82 40.19 43.86 43.93 42.67 51.33 51.05 51.11
    fedsam+swa1    38.58 39.20 39.37 47.29 46.34 46.40 53.88 53.70 54.36
    fedasam+swa1   42.50 42.40 41.76 48.67 48.50 47.95 54.16 55.07 54.19
    fedavg+cyclic  30.68 34.86 37.42 40.34 42.40 41.89 50.06 50.21 50.81
    fedsam+cyclic  31.51 35.87 37.81 44.08 45.80 46.43 53.76 53.46 54.28
    fedasam+cyclic 36.85 39.76 41.03 46.34 48.06 48.38 54.21 55.06 54.22""",
}
"""Columns as in Table 2. Only the rows that Table 2 does not have."""

TABLE_6 = {
    "cifar10": """
    fedavgm       10.00 10.00 10.00 78.51 10.00 10.00 10.00 84.00
    fedprox       62.72 68.44 68.38 73.02 70.56 70.08 74.27 73.67
    scaffold      32.25 15.56 54.46 44.76 11.98 10.00 33.25 24.11
    feddyn        67.69 73.81 71.36 75.20 77.00 74.00 77.99 75.12
    adabest       66.77 72.29 69.84 73.89 78.94 76.12 80.35 79.35
    fedavgm+asam  77.30 84.89 77.06 84.92 80.88 85.98 78.29 86.03
    fedprox+asam  73.74 75.76 75.32 77.03 76.89 75.92 76.65 76.95
    scaffold+asam 77.78 77.93 77.59 77.80 75.66 75.30 75.32 75.29
    feddyn+sam    77.38 81.00 79.18 81.70 83.81 86.07 83.18 85.57
    adabest+asam  77.48 78.43 78.41 79.72 82.00 80.80 81.87 80.81""",
    "cifar100": """
    fedavgm        1.00 40.64  4.60 47.88  1.00 53.50  4.60 53.69
    fedprox       31.20 38.59 39.53 42.17 39.06 39.68 43.98 41.84
    scaffold       1.00  1.00 33.26  1.00  1.00  1.00  5.76  1.00
    feddyn         1.00  1.40 22.03 24.75  1.00  1.40  8.27 35.15
    adabest       29.90 39.11 36.93 43.25 44.48 44.21 48.20 44.51
    fedavgm+asam   1.00 39.61  4.60 51.65  1.00 51.58  4.60 56.19
    fedprox+asam  36.10 40.91 44.81 48.17 43.90 42.06 48.66 48.19
    scaffold+asam 43.65 42.61 46.50 46.76 40.63 39.07 44.87 44.28
    feddyn+asam   22.16 23.51 35.43 38.60 17.51 19.22 38.60 31.06
    adabest+asam  39.75 45.00 45.25 49.56 51.75 47.42 51.89 51.47""",
}
"""Alpha 0 and middle, each with 5 and 20 clients per round; then the same four with SWA."""

TABLE_3 = """
    fedavg         46.60 47.03 52.70 46.51 45.83 50.28 44.58 43.90 51.10 43.31 42.88 47.95
    fedsam         50.71 53.10 55.44 52.96 53.41 54.67 52.36 52.04 55.23 51.41 51.35 53.41
    fedasam        49.31 51.10 54.25 47.21 53.50 54.29 49.03 49.33 53.01 53.88 52.94 54.18
    fedavg+mixup   43.47 49.25 56.71 50.33 49.89 55.74 44.76 46.44 57.15 47.10 47.59 54.40
    fedsam+mixup   42.83 51.92 53.96 49.66 55.77 57.70 42.17 51.04 56.54 53.50 54.75 58.88
    fedasam+mixup  43.13 51.09 56.31 50.51 52.62 56.89 44.74 50.14 58.31 49.87 50.87 55.86
    fedavg+cutout  48.64 48.59 55.40 47.00 46.96 51.70 45.19 45.46 55.40 44.68 44.25 49.39
    fedsam+cutout  48.28 53.53 57.25 52.06 54.37 56.70 49.39 51.88 57.32 52.16 52.37 55.45
    fedasam+cutout 47.52 52.13 57.01 50.01 50.66 53.54 48.99 50.09 55.77 48.48 48.77 52.00"""
"""1 epoch and 10 clients, 1 and 20, 2 and 10, 2 and 20; each at 5,000 rounds, 10,000 rounds, and
with SWA."""

TABLE_13 = """
    sgd0.1       14.09 40.43
    sgd0.01       2.67 11.35
    sgd0.001      1.20  1.12
    adam1         1.00 51.73
    adam0.1      29.75 51.62
    adam0.01     13.72 40.12
    adam0.001     2.60 11.31
    adagrad1      1.00  1.00
    adagrad0.1    1.77 46.74
    adagrad0.01  26.25 51.44
    adagrad0.001  9.70 32.01"""
"""Alpha 0 and 1000 on CIFAR-100 with 5 clients; SGD with rate 1 is FedAvg of Table 2."""

ALPHAS = {"cifar10": ("0", "0.05", "100"), "cifar100": ("0", "0.5", "1000")}
ROUNDS = {"cifar10": 10_000, "cifar100": 20_000}
SAM = {"cifar10": ("0.1", "0.1", "0.02"), "cifar100": ("0.02", "0.05", "0.05")}
ASAM = {"cifar10": ("0.7", "0.7", "0.05"), "cifar100": ("0.5", "0.5", "0.5")}
SETTINGS = {
    "local_epochs": 1, "batch_size": 64, "lr": 0.01, "weight_decay": 4e-4, "sampler_seed": "round",
    "eval_every": 100, "eval_last": 100, "on_bad": "stop",
}  # fmt: skip


def presets() -> Iterator[Preset]:
    for data in ALPHAS:
        yield from _tables_2_and_14(data)
        yield from _table_6(data)
    yield from _table_13()
    yield from _table_3()
    yield from scene_presets()


def _tables_2_and_14(data: str) -> Iterator[Preset]:
    heads = [f"{alpha} {clients}" for alpha in ALPHAS[data] for clients in (5, 10, 20)]
    for table, numbers in (("Table 2", TABLE_2), ("Table 14", TABLE_14)):
        for row, cells in rows(numbers[data], *heads):
            for head, cell in cells.items():
                alpha, clients = head.split()
                yield lda_run(data, alpha, clients, row, cell, table)


def _table_6(data: str) -> Iterator[Preset]:
    heads = [f"{a} {c} {swa}" for swa in ("", "+swa") for a in ALPHAS[data][:2] for c in (5, 20)]
    for row, cells in rows(TABLE_6[data], *heads):
        for head, cell in cells.items():
            alpha, clients, swa = head.split(" ")
            yield lda_run(data, alpha, clients, row + swa, cell, "Table 6")


def lda_run(
    data: str, alpha: str, clients: str, row: str, cell: PublishedCell, table: str
) -> Preset:
    """Return a run on a Dirichlet split. ``row`` is the row's method, words joined by '+'."""
    place = ALPHAS[data].index(alpha)
    words = _words(
        data,
        SAM[data][place],
        f"rho={ASAM[data][place]}, eta=0.2",
        {"cifar10": 10, "cifar100": 20}[data],
    )
    if row.endswith("+repo"):
        words["cutout"] = "cutout(side=16)"
    column = f"eccv22/{data}-alpha{alpha}" + ("" if clients == "5" else f"-{clients}clients")
    settings = SETTINGS | {"clients_per_round": int(clients)}
    return Preset(
        name=f"{column}-{row.replace('+', '-')}",
        method=_method(row, words),
        on=f"{data}(lda({alpha}), clients=100)",
        model="cnn()",
        rounds=ROUNDS[data],
        settings=settings | ({"local_epochs": 2} if "+e2" in row else {}),
        reported=cell.value,
        table=table,
        note=" ".join(filter(None, (_chance(data, cell), UNCLIPPED if "feddyn" in row else ""))),
        column=column if row == "fedasam+swa" else "",
    )


UNCLIPPED = (
    "Without clipping, since the paper prints none; FedDyn's own code clips at a norm of 10: "
    "--clip 10."
)


def _table_13() -> Iterator[Preset]:
    for row, cells in rows(TABLE_13, "0", "1000"):
        optimiser = row.rstrip("0.1")
        method = (
            "fedavg() + server_sgd(lr={})"
            if optimiser == "sgd"
            else f"fed{optimiser}(lr={{}}, flavour='torch')"
        )
        for alpha, cell in cells.items():
            yield Preset(
                name=f"eccv22/cifar100-alpha{alpha}-server-{row}",
                method=method.format(row.removeprefix(optimiser)),
                on=f"cifar100(lda({alpha}), clients=100)",
                model="cnn()",
                rounds=ROUNDS["cifar100"],
                settings=SETTINGS | {"clients_per_round": 5},
                reported=cell.value,
                table="Table 13",
                note=_chance("cifar100", cell),
            )


def _table_3() -> Iterator[Preset]:
    """Scores after 10,000 rounds, and after 5,000 of the same runs."""
    heads = [f"{e} {c} {at}" for e in (1, 2) for c in (10, 20) for at in ("5k", "10k", "swa")]
    for row, cells in rows(TABLE_3, *heads):
        for head, cell in cells.items():
            epochs, clients, at = head.split()
            if at == "5k":
                run = _pam(int(epochs), int(clients), row, cells[f"{epochs} {clients} 10k"], "")
                yield run.measuring("at5k", "accuracy", cell, at=0.5)
                continue
            half = cells[f"{epochs} {clients} 5k"]
            words = row + ("+swa" if at == "swa" else "")
            note = f"{half.value} after 5,000 rounds, without SWA."
            yield _pam(int(epochs), int(clients), words, cell, note)
            if "cutout" in row:
                yield _pam(
                    int(epochs),
                    int(clients),
                    words + "+repo",
                    cell,
                    "Cutout of 16 pixels, as the code has it.",
                )


def _pam(epochs: int, clients: int, row: str, cell: PublishedCell, note: str) -> Preset:
    words = _words("cifar100", "0.05", f"rho=0.5, eta={0 if 'mixup' in row else 0.2}", 5)
    if row.endswith("+repo"):
        words["cutout"] = "cutout(side=16)"  # as the code has it
    column = (
        "eccv22/cifar100-pam"
        + ("-e2" if epochs == 2 else "")
        + ("-20clients" if clients == 20 else "")
    )
    work = {"local_epochs": epochs, "batch_size": 20, "momentum": 0.9, "clients_per_round": clients}
    return Preset(
        name=f"{column}-{row.replace('+', '-')}",
        method=_method(row, words),
        on="cifar100(pam(), clients=500)",
        model="resnet18()",
        rounds=10_000,
        settings=SETTINGS | work,
        reported=cell.value,
        table="Table 3",
        note=note,
        column=column if row == "fedasam+swa" else "",
    )


def _words(data: str, rho: str, asam: str, cycle: int) -> dict[str, str]:
    """Return the piece of each word of a row. "e2" and "repo" are not pieces."""
    beta = {"cifar10": 0.9, "cifar100": 0.8}[data]
    return {
        "fedavg": "fedavg()", "fedsam": f"fedsam(rho={rho})", "fedasam": f"fedasam({asam})",
        "fedavgm": "fedavgm(beta=0.9)", "fedprox": "fedprox(mu=0.1)", "scaffold": "scaffold()",
        "feddyn": "feddyn(alpha=0.01)", "adabest": f"adabest(beta={beta}, mu=0.02)",
        "sam": f"sam(rho={rho})", "asam": f"asam({asam})", "mixup": "mixup(alpha=1.0)", "cutout": "cutout(side=8)",
        "swa": f"swa(cycle={cycle})", "swa1": "swa(cycle=1)", "cyclic": f"swa(cycle={cycle}, average=False)",
    }  # fmt: skip


def _method(row: str, words: dict[str, str]) -> str:
    return " + ".join(words[word] for word in row.split("+") if word not in ("e2", "repo"))


def _chance(data: str, cell: PublishedCell) -> str:
    chance = {"cifar10": 10, "cifar100": 1}
    return (
        "The paper's number is that of chance: it did not learn."
        if cell.value == chance[data]
        else ""
    )
