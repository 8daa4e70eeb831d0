"""FedSeq and its variants, with superclients that train sequentially, and six baselines.

Zaccone et al., Speeding up Heterogeneous Federated Learning with Sequentially Trained Superclients,
ICPR 2022. Numbers and tables are those of Caldarola's doctoral thesis, which also has FedAsyncSeq,
FedSeq2Par and Task2Vec.

    fedseq/cifar10-alpha0.2-fedseq2par        Table 5.1; CIFAR by class (alpha 0, 0.2, 0.5), FEMNIST
                                              by writer or iid, Shakespeare by role or iid
    fedseq/cifar10-alpha0.2-conf-greedy-kl    Table 5.3: psi, phi and tau of the superclients; Table
                                              5.4 (parallelism) has the runs of Table 5.1
    fedseq/cifar10-alpha0.2                   the column's main run, FedSeq
    fedseq/stackoverflow-fedseq               Table 5.1; see below
    fedseq/cifar10-alpha0-fedseq-rounds70     Figure 5.6: rounds to 70 % of the centralised accuracy
    fedseq/femnist-niid-linear-b20            Figure 5.11: growth of superclients
    fedseq/omniglot-standin-fedseq            Omniglot's writers, without a number of the thesis

Every round has a fifth of the clients or superclients. There are three seeds, which are not named.
Superclients of Table 5.1 are those of Task2Vec, by the dissimilarity of norm-cosines on CIFAR and
by k-means elsewhere. The probe of Task2Vec is the authors' pre-trained ImageNet network, which is
not available here. Ours is the run's own model, trained on the public part of the test set: ten
images of each class, which no run is evaluated on. Confidences use the same part.

The rows FedDyn and SCAFFOLD are from code that differs from the papers' algorithms: its FedDyn
lacks the gradient of the linear term, and its SCAFFOLD is option I. Here they are as published. The
growth rates of superclients of FedSeq2Par are those that give Table 5.4: the appendix prints b = 5
for FEMNIST (20 here) and one rate for both CIFARs. Shakespeare's weight decay is 1e-4 in the text
and 0 in a table. CIFAR-100 is normalised by its own constants here.

Centralised rows have a cosine; 300 epochs and momentum 0.9 on CIFAR, 75 epochs on Shakespeare. For
FEMNIST their number is not printed: 100 here. Shakespeare is LEAF's, cut as in FedDyn.

For StackOverflow the rounds are not printed: 1,500 here, as in Reddi et al., with the growth that
then fits Table 5.4. Nor is the probe of its Task2Vec. There are no classes to describe users by, so
superclients are random here, 1,900 of them as in Table 5.4. The centralised row, whose
epochs are not printed, has ten; all sentences of 40,000 users take a few gigabytes of memory.
Attacks are in `fedflat.papers.presets.attacks`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import log
from typing import Any

from fedflat.papers.presets.preset import Preset, PublishedCell, rows

CIFARS = (
    "cifar10-alpha0", "cifar10-alpha0.2", "cifar10-alpha0.5", "cifar100-alpha0", "cifar100-alpha0.2",
    "cifar100-alpha0.5",
)  # fmt: skip
NATURAL = ("femnist-niid", "femnist-iid", "shakespeare-niid", "shakespeare-iid")
TABLE_1 = """
    centralised 85.64±0.07 -          -          54.97±0.10 -          -
    fedavg      71.27±0.29 76.32±0.36 77.39±0.43 42.68±0.22 48.79±0.55 49.51±0.61
    fedprox     71.52±0.08 76.21±0.50 77.38±0.57 42.83±0.18 48.84±0.65 49.44±0.49
    scaffold    78.82±0.05 78.02±1.13 78.51±0.24 42.17±0.10 51.06±0.03 51.02±0.12
    feddyn      83.31±0.05 82.31±0.41 82.97±0.40 50.35±0.27 53.50±0.76 54.32±0.63
    fedcyclic   82.45±0.18 82.61±0.27 83.49±0.08 47.46±0.42 49.93±0.16 50.47±0.27
    fedseq      81.89±0.28 82.19±0.26 82.77±0.12 45.87±0.45 49.26±0.40 49.63±0.42
    fedasyncseq 83.03±0.31 83.17±0.27 83.57±0.22 50.23±0.11 51.39±0.18 51.27±0.24
    fedseq2par  83.68±0.14 84.21±0.08 84.26±0.06 51.46±0.23 51.44±0.02 51.72±0.10"""
"""On the two CIFARs."""
TABLE_1_NATURAL = """
    centralised 87.52±0.27 -          52.00±0.02 -
    fedavg      81.55±0.11 83.06±0.12 48.68±0.12 48.50±0.07
    fedprox     81.55±0.05 83.07±0.05 48.73±0.12 48.51±0.15
    scaffold    82.56±0.07 82.70±0.01 50.91±0.19 50.91±0.12
    feddyn      81.95±0.42 82.00±0.13 51.77±0.03 51.94±0.09
    fedcyclic   85.46±0.05 87.47±0.09 50.25±0.05 50.68±0.03
    fedseq      87.11±0.03 87.48±0.03 51.70±0.13 51.82±0.00
    fedasyncseq 86.96±0.07 87.20±0.01 51.82±0.13 51.88±0.04
    fedseq2par  87.58±0.15 87.95±0.05 52.75±0.20 52.71±0.05"""
"""On FEMNIST and Shakespeare."""
TABLE_1_STACKOVERFLOW = """
    centralised 28.50±0.20
    fedavg      24.68±0.15
    fedprox     24.59±0.19
    scaffold    26.10±0.15
    feddyn      25.51±0.02
    fedcyclic   26.44±1.68
    fedseq      28.91±0.21
    fedasyncseq 27.44±0.35
    fedseq2par  29.79±0.33"""
TABLE_3 = """
    random              81.90 82.09 82.12 46.39 48.62 49.44 87.07 87.49 51.55 51.84
    clf-kmeans          82.30 81.78 82.48 44.91 48.74 49.60 87.07 87.45 51.78 51.70
    clf-greedy-cosine   79.95 82.06 83.32 45.22 48.92 49.62 87.12 87.42 51.72 51.88
    conf-kmeans         82.04 81.99 82.37 43.55 49.43 49.79 87.10 87.50 51.79 51.87
    conf-greedy-kl      82.21 82.20 82.22 45.97 49.56 49.82 87.01 87.46 51.70 51.65
    conf-greedy-gini    82.09 81.85 82.71 45.79 48.98 49.61 87.05 87.42 51.59 51.98
    t2v-greedy          82.28 82.48 82.86 46.51 50.06 50.31 87.11 87.48 51.65 51.82
    asyncseq-t2v-best   83.40 83.37 83.85 50.38 51.64 51.58 86.96 87.20 51.93 52.02
    2par-t2v-icg        83.86 84.66 84.35 51.23 51.41 51.78 87.58 87.96 52.84 52.54"""
GINI = (
    "The table prints Task2Vec in this row, but the Gini index needs probabilities: read as "
    "confidence."
)

EACH: dict[str, dict[str, Any]] = {
    "cifar10": {"clients_per_round": 100, "batch_size": 64, "lr": 0.01, "weight_decay": 4e-4},
    "cifar100": {"clients_per_round": 100, "batch_size": 64, "lr": 0.01, "weight_decay": 4e-4},
    "femnist": {"clients_per_round": 700, "batch_size": 20, "lr": 0.01},
    "shakespeare": {"clients_per_round": 20, "batch_size": 100, "lr": 1.0, "weight_decay": 1e-4},
    "omniglot": {"clients_per_round": 24, "batch_size": 16, "lr": 0.1},
    "stackoverflow": {"clients_per_round": 8000, "batch_size": 16, "lr": 0.3162},
}
MODELS = {"cifar10": "cnn()", "cifar100": "cnn()", "femnist": "femnist_cnn()", "shakespeare": "char_lstm(every=False)",
          "omniglot": "femnist_cnn()", "stackoverflow": "word_lstm()"}  # fmt: skip
ROUNDS = {
    "cifar10": 10_000,
    "cifar100": 20_000,
    "femnist": 1_500,
    "shakespeare": 250,
    "omniglot": 1_000,
    "stackoverflow": 1_500,
}
LIMITS = {
    "femnist": ", d_min=4120, k_max=21",
    "shakespeare": ", d_min=8000, k_max=5",
    "omniglot": ", d_min=300",
}
GROWTHS = {
    "cifar10": "exponential(0.00046)", "cifar100": "exponential(0.000235)", "femnist": "exponential(0.003, b=20)",
    "shakespeare": "exponential(0.018)", "omniglot": "exponential(0.003)",
    "stackoverflow": "exponential(0.00447, b=50)",
}  # fmt: skip
EPOCHS = {
    "cifar10": 300, "cifar100": 300, "femnist": 100, "shakespeare": 75, "omniglot": 100,
    "stackoverflow": 10,
}  # fmt: skip
"""Of the centralised rows."""
SETS = {
    "shakespeare": "leaf_shakespeare",
    "stackoverflow": "stackoverflow",
}
PEOPLE = {"femnist": 3500, "shakespeare": 100}
RANDOM = "Superclients are random here; the thesis does not say by which probe it grouped users."
MERGED = "Models are merged as often as there are chains: every 1,900 rounds would be never."


def presets() -> Iterator[Preset]:
    """Return all presets, table by table, then the stand-ins."""
    for table, numbers, columns in (
        ("Table 5.1", TABLE_1, CIFARS), ("Table 5.1", TABLE_1_NATURAL, NATURAL),
        ("Table 5.3", TABLE_3, (*CIFARS, *NATURAL)),
    ):  # fmt: skip
        for row, cells in rows(numbers, *columns):
            for column, cell in cells.items():
                yield _run(column, row, cell, table)
    for row, cells in rows(TABLE_1_STACKOVERFLOW, "stackoverflow"):
        yield _stackoverflow(row, cells["stackoverflow"])
    yield from _figure_5_6()
    yield from _figure_5_11()
    for row, _ in rows(TABLE_1, *CIFARS):
        yield _run("omniglot-standin", row, None, "Omniglot")


def _stackoverflow(row: str, cell: PublishedCell) -> Preset:
    run = _run("stackoverflow", row, cell, "Table 5.1")
    methods = {
        "fedseq": "fedseq(groups=1900)",
        "fedasyncseq": "fedasyncseq(groups=1900, R='chains')",
        "fedseq2par": f"fedseq2par(growth={GROWTHS['stackoverflow']})",
    }
    note = {
        **dict.fromkeys(methods, RANDOM),
        "fedasyncseq": f"{RANDOM} {MERGED}",
        "centralised": "The number of epochs is not printed.",
    }.get(row, run.note)
    settings = {name: value for name, value in run.settings.items() if name != "server_data"}
    return replace(
        run,
        method=methods.get(row, run.method),
        on="stackoverflow(clients=40000, most=1000)",
        settings=settings,
        note=note,
    )


def _figure_5_6() -> Iterator[Preset]:
    """Rounds to 70 % and to 90 % of the accuracy of the centralised run."""
    none = PublishedCell(None)
    for column in ("cifar10-alpha0", "cifar100-alpha0", "femnist-niid"):
        target = f"fedseq/{column}-centralised"
        for row, _ in rows(TABLE_1, *CIFARS):
            if row == "centralised":
                continue
            run = _run(column, row, none, "Figure 5.6")
            for share in (70, 90):
                yield run.measuring(
                    f"rounds{share}",
                    "rounds",
                    none,
                    target=f"{share / 100}*{target}",
                    not_printed=True,
                    note="Of a figure, whose values are not printed.",
                )


def _figure_5_11() -> Iterator[Preset]:
    """Growth functions and their first numbers of superclients; all are alone at the end."""
    for data in PEOPLE:
        rounds = ROUNDS[data]
        for first in (5, 10, 20, 25):
            ratio = PEOPLE[data] / first
            rates = {
                "linear": (ratio - 1) / (rounds - 1),
                "logarithmic": (ratio - 1) / log(rounds),
                "exponential": ratio ** (1 / (rounds - 1)) - 1,
            }
            for name, rate in rates.items():
                growth = f"{name}({float(f'{rate:.4g}')!r}" + (
                    ")" if first == 5 else f", b={first})"
                )
                run = _run(f"{data}-niid", "fedseq2par", PublishedCell(None), "Figure 5.11")
                yield replace(
                    run,
                    name=f"fedseq/{data}-niid-{name}-b{first}",
                    method=f"fedseq2par(growth={growth}, groups=icg({first}, psi='task2vec'))",
                    not_printed=True,
                    note="Of a figure, whose values are not printed.",
                )


def _run(column: str, row: str, cell: PublishedCell | None, table: str) -> Preset:
    data, _, split = column.partition("-")
    public = ", per_class=1" if data == "omniglot" else ""  # of the five test images of a letter
    files = SETS.get(data, data)
    on = f"without_public_part({files}({_deal(data, split)}){public})"
    method = _method(row, data)
    settings = {"local_epochs": 1, "eval_last": 100, "on_bad": "stop", **EACH[data]}
    if "task2vec" in method or "conf" in row:
        settings["server_data"] = f"public_part({files}(){public})"
    if row == "feddyn":
        settings["clip"] = 30.0
    rounds = ROUNDS[data]
    if row == "centralised":
        rounds = EPOCHS[data]
        lr = f"cosine({settings['lr']}, 0.0, {rounds})"
        settings |= {"clients_per_round": 1, "lr": lr, "eval_last": 1}
        settings |= {"momentum": 0.9} if data.startswith("cifar") else {}
    elif cell is None:
        settings["eval_last"] = 10
    return Preset(
        name=f"fedseq/{column}-{row}",
        method=method,
        on=on,
        model=MODELS[data],
        rounds=rounds,
        settings=settings,
        reported=None if cell is None else cell.value,
        spread=None if cell is None else cell.spread,
        not_printed=cell is None,
        table=table,
        note=_note(row, cell),
        column=f"fedseq/{column}" if row == "fedseq" else "",
    )


def _note(row: str, cell: PublishedCell | None) -> str:
    if cell is None:
        return "Omniglot's writers in place of StackOverflow's users; there is no number."
    code = (
        "The number is from code that is not the paper's algorithm."
        if row in ("feddyn", "scaffold")
        else ""
    )
    return GINI if "gini" in row else code


def _deal(data: str, split: str) -> str:
    """Return the arguments of the partition. Empty for data with natural clients."""
    if data.startswith("cifar"):
        return f"by_class({split.removeprefix('alpha')}), clients=500"
    return f"iid(), clients={PEOPLE[data]}" if split == "iid" else ""


def _method(row: str, data: str) -> str:
    limits = LIMITS.get(data, "")
    alone = limits.removeprefix(", ")
    best = f"greedy(psi='task2vec', tau='norm_cosine'{limits})"
    if not data.startswith("cifar"):
        best = f"kmeans(psi='task2vec'{limits})"
    growth = GROWTHS[data]
    groups = "20" if "b=20" in growth else "5"
    growing = f"fedseq2par(growth={growth}, groups=icg({groups}, psi='task2vec'))"
    mild = not data.startswith("cifar")
    return {
        "centralised": "centralised()",
        "fedavg": "fedavg()",
        "fedprox": f"fedprox(mu={0.001 if mild else 0.01})",
        "scaffold": "scaffold()",
        "feddyn": f"feddyn(alpha={0.001 if mild else 0.1})",
        "fedcyclic": "fedcyclic()",
        "fedseq": f"fedseq(groups={best})",
        "fedasyncseq": f"fedasyncseq(groups={best})",
        "fedseq2par": growing,
        "random": f"fedseq(groups=random({alone}))",
        "clf-kmeans": f"fedseq(groups=kmeans(psi='classifier'{limits}))",
        "clf-greedy-cosine": f"fedseq(groups=greedy(psi='classifier', tau='cosine'{limits}))",
        "conf-kmeans": f"fedseq(groups=kmeans({alone}))",
        "conf-greedy-kl": f"fedseq(groups=greedy({alone}))",
        "conf-greedy-gini": f"fedseq(groups=greedy(tau='gini'{limits}))",
        "t2v-greedy": f"fedseq(groups=greedy(psi='task2vec', tau='norm_cosine'{limits}))",
        "asyncseq-t2v-best": f"fedasyncseq(groups={best})",
        "2par-t2v-icg": growing,
    }[row]
