"""Labels of runs and models: the method, and the settings in which runs differ; colours and markers;
the command of a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from fedflat.analysis.analysis import analyses
from fedflat.experiments.results.frame import OF_A_RUN, differences, settings
from fedflat.experiments.results.scenario import (
    Labels,
    Scenario,
    differing_arguments,
    labelled,
    without_arguments,
)
from fedflat.experiments.run_folder.experiment_texts import TASK, ExperimentInfo, ExperimentTexts
from fedflat.experiments.run_folder.plugins_needed import missing
from fedflat.experiments.run_folder.record import RunRecord
from fedflat.report.load import ReportRun
from fedflat.settings.execution import MACHINE
from fedflat.settings.setting import as_option

Named = tuple[str, str]
"""The method of a model, and which of the method's models it is."""
_MODEL = re.compile(r"(?P<folder>.*):(?P<model>[^:/]*?)(?P<round> in round \d+)?", re.DOTALL)


class RunLabels:
    """The runs of a page, to be found by what an analysis calls them."""

    def __init__(self, runs: Sequence[ReportRun], labels: Sequence[str]) -> None:
        self._runs = list(zip(runs, labels, strict=True))

    def plane(self, number: int, result: dict[str, Any]) -> dict[str, Any]:
        """A title for a plane stored with a run, and its models by their methods."""
        marks = [mark["name"] for mark in result["marks"]]
        texts = result["models"] if len(result["models"]) == len(marks) else marks
        named = [self._named(number, text, mark) for text, mark in zip(texts, marks, strict=True)]
        full = _full(named)
        marked = [{**mark, "name": name} for mark, name in zip(result["marks"], full, strict=True)]
        return {**result, "marks": marked, "title": _title(named)}

    def line(self, number: int, result: dict[str, Any]) -> dict[str, Any]:
        """A title for a line stored with a run, and its two ends by their methods."""
        ends = [self._named(number, result[end], result[end]) for end in ("b", "a")]
        b, a = (
            _full(ends)
            if len({method for method, _ in ends}) == 1
            else [method for method, _ in ends]
        )
        return {**result, "a": a, "b": b, "title": f"{b} to {a}"}

    def _named(self, number: int, text: str, otherwise: str) -> Named:
        if text.startswith("client "):
            return self._runs[number][1], text
        found = _MODEL.fullmatch(text)
        run = self._run(found["folder"]) if found else None
        if found is None or run is None:
            return otherwise, ""
        model = "" if found["model"] == "server" else f" {found['model']}"
        return run[1], f"seed {run[0].result.seed}{model}{found['round'] or ''}"

    def _run(self, folder: str) -> tuple[ReportRun, str] | None:
        """The run in this folder, or else the only one in a folder of that name in a folder of that
        name."""
        path = Path(folder)
        for run in self._runs:
            if (
                run[0].folder in (path, path.absolute())
                or run[0].folder.absolute() == path.absolute()
            ):
                return run
        ends = [
            run
            for run in self._runs
            if run[0].folder.absolute().parts[-2:] == path.absolute().parts[-2:]
        ]
        return ends[0] if len(ends) == 1 else None


def _full(named: Sequence[Named]) -> list[str]:
    return [", ".join(filter(None, one)) for one in named]


def _title(named: Sequence[Named]) -> str:
    """The methods; of one method alone, which of its models.

    >>> _title([("fedavg()", "seed 0"), ("fedsam()", "seed 0"), ("fedsam()", "seed 1")])
    'fedavg() and fedsam()'
    >>> _title([("fedavg()", "client 3"), ("fedavg()", "client 5"), ("fedavg()", "client 7")])
    'fedavg(): client 3, client 5 and client 7'
    """
    methods = list(dict.fromkeys(method for method, _ in named))
    if len(methods) == 1:
        details = _listed([detail for _, detail in named if detail])
        return f"{methods[0]}: {details}" if details else methods[0]
    return _listed(methods)


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


@dataclass(frozen=True)
class RunName:
    """The method of a run, and what sets the run apart from others of its section."""

    method: str
    """The text of the method."""
    label: str
    """What the method is called: a label that was given, or its text."""
    short: str = ""
    """The label, or the text without arguments."""
    apart: Mapping[str, Any] = field(default_factory=dict)
    """Settings in which it differs from other runs of its method, but for the seed."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Arguments in which it differs from other methods of its name."""

    @property
    def columns(self) -> dict[str, str]:
        """Arguments and settings, which have columns of their own in tables."""
        return {**self.arguments, **{name: str(value) for name, value in self.apart.items()}}

    @property
    def name(self) -> str:
        """A name that no other kind of run in the section has."""
        return ", ".join([self.label, *(f"{name}={value}" for name, value in self.apart.items())])


def run_names(runs: Sequence[ReportRun], labels: Labels) -> list[RunName]:
    """A name for each run within its scenario."""
    texts = [run.record.experiment for run in runs]
    called = labelled([one.method for one in texts], labels)
    named: dict[int, RunName] = {}
    for scenario in dict.fromkeys(run.result.scenario for run in runs):
        own = [place for place, run in enumerate(runs) if run.result.scenario == scenario]
        apart = differences([(texts[place].method, settings(texts[place])) for place in own])
        methods = list(dict.fromkeys(texts[place].method for place in own))
        for place, differing in zip(own, apart, strict=True):
            method, label = texts[place].method, called[place]
            own_arguments = differing_arguments(method, methods)
            short = label if label != method else without_arguments(method)
            named[place] = RunName(method, label, short, differing, own_arguments)
    return [named[place] for place in range(len(runs))]


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


_OMITTED = {one.name: one.omitted_value for one in (*OF_A_RUN, *MACHINE) if one.name != "seed"}


def not_default(found: dict[str, Any]) -> dict[str, Any]:
    """The settings that differ from their defaults."""
    found = {
        name: value
        for name, value in found.items()
        if value is not None and value != _OMITTED.get(name)
    }
    if "local_steps" in found:
        found.pop("local_epochs", None)
    return found


def command(
    experiment: ExperimentTexts, execution: Mapping[str, Any], info: ExperimentInfo | None = None
) -> str:
    """The command that repeats a run; empty if only Python can start the run.

    ``info`` is what the run folder records about the experiment. None: its texts are read.

    >>> saved = {"method": "fedavg()", "on": "digits()", "model": "mlp()", "rounds": 5, "loss": "cross_entropy"}
    >>> command(ExperimentTexts.from_json(saved), {})
    "fedflat run 'fedavg()' --on 'digits()' --model 'mlp()' --rounds 5"
    """
    if experiment.only_in_python or execution.get("on_round_end"):
        return ""
    info = info or experiment.info()
    words = ["fedflat", "run", quote(experiment.method)]
    found = not_default({**settings(experiment), **execution})
    for name, decided in info.method.settings.items():
        if found.get(name) == decided:
            del found[name]
    task, usual_task = found.pop("task", TASK), TASK if info.data is None else info.data.usual_task
    words += [as_option(name, value) for name, value in found.items()]
    words += [as_option("task", task)] if task != usual_task else []
    if experiment.replayed:
        words += ["--replay", "FILE"]
    for plugin in (need.plugin for need in experiment.plugins):
        words += ["--plugin", quote(plugin.place or plugin.name)] if plugin.digest else []
    return " ".join(words)


def unread(experiments: Iterable[ExperimentTexts]) -> list[str]:
    """Return a sentence for each plugin that is needed to describe methods and is not loaded."""
    return list(dict.fromkeys(sentence for exp in experiments for sentence in missing(exp.plugins)))
