"""FedVPR: visual place recognition.

Caldarola's doctoral thesis, section 6.3, Tables 6.5 to 6.7.

    fedvpr/msls-random-fedavg            Table 6.5: FedAvg on the three splits of MSLS, and
                                         centralised training
    fedvpr/msls-proximity2000-hfl_cities Table 6.6: four server optimizers, H-FL by continents and
                                         cities, FedAvg with as many requests
    fedvpr/msls-proximity2000-virtual125 Table 6.7: FedAvg with 125 local steps at every client
    fedvpr/msls-proximity2000-fedvc125   FedVC: clients sampled by size, with equal weights
    fedvpr/streets-standin-...           the same rows on generated streets, for machines without
                                         MSLS; there is no number to compare with

Clients per round, rounds, local epochs and the limit of 2500 local steps are the thesis'. No code
was released, and these are not printed: the optimizer (Adam with 1e-5, moments reset in every
round), the batch of four queries, the frozen layers and the initial ImageNet weights are those of
the public benchmark of the same group (Berton et al., CVPR 2022), as are the distances. One negative
per query is that of the thesis' Eq. 2.12. The number of rounds between two merges of H-FL (5), its
rounds (those of the FedAvg rows beside it), the server rates, and the length of centralised training
(two million steps) are ours. A file resnet18.pth with torchvision's weights must be in the working
folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fedflat.papers.presets.preset import Preset

STREETS = "street(towns=4, clients=80, targets='place')"
CITIES = "street(towns=21, clients=210, targets='place')"
SETTINGS: dict[str, Any] = {
    "task": "retrieval()", "clients_per_round": 5, "local_epochs": 1, "batch_size": 4, "lr": 0.05, "eval_last": 10,
    "on_bad": "stop",
}  # fmt: skip
STEPS = {125: 3200, 250: 1600, 500: 800, 1000: 400, 2000: 200, 4000: 100}
"""Local steps, and the number of rounds for two million steps in total."""
MSLS = "msls()"
NETWORK = "frozen(resnet18_gem(), layers='conv1,bn1,layer1,layer2')"
TRUE: dict[str, Any] = {
    "task": "retrieval()", "init": "from_weights('resnet18.pth', keep='matching')", "clients_per_round": 5,
    "local_epochs": 1, "max_local_steps": 2500, "batch_size": 4, "drop_last": True, "lr": 1e-5, "eval_last": 10,
    "on_bad": "stop",
}  # fmt: skip
SPLITS = {
    "random": ("msls('random')", 40.2, 0.0),
    "clustering": ("msls('clustering', weights='resnet18.pth')", 57.3, 1.2),
    "proximity1000": ("msls(radius=1000.0)", 51.7, 1.7),
    "proximity2000": (MSLS, 61.0, 0.6),
    "proximity4000": ("msls(radius=4000.0)", 66.1, 0.3),
}
"""Data, recall@1 and its standard deviation in Table 6.5. Proximity(2000) is also the first row of
Tables 6.6 and 6.7."""
SERVERS = {
    "fedavgm": ("fedavgm()", 61.2, 1.4),
    "fedadam": ("fedadam(flavour='torch')", 61.1, 1.2),
    "fedadagrad": ("fedadagrad(flavour='torch')", 61.6, 0.3),
}
HIERARCHY = {
    "hfl_continents": ("hfl(clusters=by_column('continent'))", 75, 5, 46.9, 1.3),
    "fedavg_20clients": ("fedavg()", 75, 20, 55.6, 0.8),
    "hfl_cities": ("hfl(clusters=by_column('city'))", 15, 5, 33.3, 0.1),
    "fedavg_105clients": ("fedavg()", 15, 105, 44.2, 0.4),
}
FIXED_STEPS = {
    125: ((66.6, 0.8), (62.3, 1.1)),
    250: ((66.0, 1.7), (65.9, 1.0)),
    500: ((66.4, 1.6), (67.7, 0.4)),
    1000: ((61.7, 2.4), (66.8, 0.5)),
    2000: ((58.8, 1.8), (65.2, 0.9)),
    4000: ((57.3, 2.5), (60.6, 1.0)),
}
"""Recall@1 of FedAvg and FedVC in Table 6.7, by local steps."""
NOTE = "Drawn streets stand in for MSLS; there is no number to compare with."


def presets() -> Iterator[Preset]:
    yield from _published()
    yield from _stand_ins()


def _published() -> Iterator[Preset]:
    five, six, seven = "Table 6.5", "Table 6.6", "Table 6.7"
    yield _row(
        "proximity2000-centralised", "centralised()", MSLS, 800, (66.0, 0.4), five, state="client",
        note="Rounds of 2500 steps, two million in all; the thesis does not describe this run.",
    )  # fmt: skip
    for name, (on, reported, spread) in SPLITS.items():
        yield _row(f"{name}-fedavg", "fedavg()", on, 300, (reported, spread), five)
    for name, (method, reported, spread) in SERVERS.items():
        yield _row(f"proximity2000-{name}", method, MSLS, 300, (reported, spread), six)
    for name, (method, rounds, clients, reported, spread) in HIERARCHY.items():
        more: dict[str, Any] = {"clients_per_round": clients}
        yield _row(f"proximity2000-{name}", method, MSLS, rounds, (reported, spread), six, **more)
    for steps, (fedavg, fedvc) in FIXED_STEPS.items():
        rounds, queries = STEPS[steps], steps * TRUE["batch_size"]
        fixed: dict[str, Any] = {
            "local_steps": steps,
            "local_epochs": None,
            "max_local_steps": None,
        }
        yield _row(
            f"proximity2000-virtual{steps}", "fedavg()", MSLS, rounds, fedavg, seven, **fixed
        )
        drawn: dict[str, Any] = {
            "sampler": "by_size",
            "weighting": "uniform",
            "max_local_steps": None,
        }
        yield _row(
            f"proximity2000-fedvc{steps}",
            f"fedvc(n={queries})",
            MSLS,
            rounds,
            fedvc,
            seven,
            **drawn,
        )


def _row(
    name: str, method: str, on: str, rounds: int, reported: tuple[float, float], table: str, *, state: str = "reset",
    note: str = "", **more: Any,
) -> Preset:  # fmt: skip
    adam = "local_adam()" if state == "reset" else f"local_adam(state={state!r})"
    settings = {key: value for key, value in (TRUE | more).items() if value is not None}
    return Preset(
        name=f"fedvpr/msls-{name}", method=f"{method} + {adam}", on=on, model=NETWORK, rounds=rounds, settings=settings,
        reported=reported[0], spread=reported[1], table=table, note=note, measure="recall@1",
    )  # fmt: skip


def _stand_ins() -> Iterator[Preset]:
    six = "H-FL's Table 6.6"
    for name, method in (
        ("fedavg", "fedavg()"), ("fedavgm", "fedavgm()"), ("fedadam", "fedadam()"), ("fedadagrad", "fedadagrad()"),
    ):  # fmt: skip
        yield _run(name, method, STREETS, 300, six)
    towns = "by_column('town')"
    yield _run("hfl-towns", f"hfl(clusters={towns})", STREETS, 75, six)
    yield _run("fedavg-20clients", "fedavg()", STREETS, 75, six, clients_per_round=20)
    yield _run("hfl-cities", f"hfl(clusters={towns})", CITIES, 15, six)
    yield _run("fedavg-105clients", "fedavg()", CITIES, 15, six, clients_per_round=105)
    for steps, rounds in STEPS.items():
        examples = steps * SETTINGS["batch_size"]
        yield _run(
            f"virtual{steps}", "fedavg()", STREETS, rounds, "FedVC's Table 6.7", virtual=examples
        )
        fedvc = {"sampler": "by_size", "weighting": "uniform"}
        yield _run(
            f"fedvc{steps}", f"fedvc(n={examples})", STREETS, rounds, "FedVC's Table 6.7", **fedvc
        )


def _run(name: str, method: str, on: str, rounds: int, table: str, **more: Any) -> Preset:
    where = "cities" if on == CITIES else "streets"
    return Preset(
        name=f"fedvpr/{where}-standin-{name}", method=method, on=on, model="embedder()", rounds=rounds,
        settings={**SETTINGS, **more}, reported=None, not_printed=True, table=table, note=NOTE,
    )  # fmt: skip
