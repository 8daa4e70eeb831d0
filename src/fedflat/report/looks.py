"""What a method looks like in every chart and figure, what classes are called, and how large the
data and the models of a section are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fedflat.analysis.analysis import analyses
from fedflat.experiments.results.scenario import Scenario
from fedflat.experiments.run_folder.record import RunRecord

Document = dict[str, Any]
LONGEST_NAME = 36
"""Most letters of a method's name that is printed whole."""


def add_looks(document: Document) -> None:
    """Give each method a number that stands for its colour, dash and mark.

    The same method has the same number in every section. Analyses have that of their method.
    """
    names = list(dict.fromkeys(method["name"] for method in document["methods"]))
    for method in document["methods"]:
        method["look"] = names.index(method["name"])
    for kind in (*analyses(), "heatmaps", "groups"):
        for one in document[kind]:
            one["look"] = document["methods"][one["method"]]["look"]


def shorten_leads(document: Document) -> None:
    """Use short names for methods with long texts in the first sentence of each section."""
    for method in document["methods"]:
        board = document["boards"][method["board"]]
        shorts = [m["short"] for m in document["methods"] if m["board"] == method["board"]]
        if len(method["name"]) > LONGEST_NAME and shorts.count(method["short"]) == 1:
            for one in (board, document):
                one["lead"] = one["lead"].replace(method["name"], method["short"])


def add_class_names(document: Document, scenarios: Sequence[Scenario]) -> None:
    """Give partitions and groups the names of their classes, where the data set has names."""
    for kind in ("partition", "groups"):
        for one in document[kind]:
            names = scenarios[document["methods"][one["method"]]["board"]].class_names
            counts = one.get("counts") or one.get("before") or [[]]
            one["names"] = list(names) if len(names) == len(counts[0]) else []


def size_facts(records: Iterable[RunRecord]) -> Document:
    """The numbers of clients, examples, classes and parameters of these runs, and their models.

    A number is a list with one entry for each value that the runs have; it is empty for runs of
    versions that did not record it.
    """
    found: dict[str, list[Any]] = {
        name: [] for name in ("clients", "examples", "test_examples", "classes", "parameters")
    }
    models: list[str] = []
    for record in records:
        for name, values in found.items():
            value = getattr(record.origin, name)
            if value and value not in values:
                values.append(value)
        model = record.experiment.model or "given in Python"
        models += [] if model in models else [model]
    return {**found, "models": models}
