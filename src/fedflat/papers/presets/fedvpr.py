"""FedVPR: visual place recognition with hierarchical FL and virtual clients, on a stand-in.

Caldarola's doctoral thesis, chapter 6.3, which uses Mapillary's street-level sequences (MSLS).

    fedvpr/streets-standin-hfl-towns     Table 6.6: FedAvg with four server optimisers, H-FL by
                                         continents and cities, FedAvg with as many requests
    fedvpr/streets-standin-virtual125    Table 6.7: FedAvg with 125 local steps on every client
    fedvpr/streets-standin-fedvc125      FedVC: clients sampled by size, with equal weights

MSLS is not available, and no code was released. All rows run on generated streets, whose towns
stand for continents and cities, with a small network of our own and plain SGD. So there is no
number of the paper; only rows can be compared with each other. Rounds, clients per round and steps
are the paper's. The number of rounds between cluster averages is not printed; we use five. Batches
have four queries.
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
NOTE = "Drawn streets stand in for MSLS, which is not at hand; there is no number to compare with."


def presets() -> Iterator[Preset]:
    """Return all presets, row by row."""
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
