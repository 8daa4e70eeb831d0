"""Names of runs on a page: the method, and the settings in which runs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedflat.experiments.results.method_labels import (
    Labels,
    differing_arguments,
    labelled,
    without_arguments,
)
from fedflat.experiments.results.run_settings import differences, settings
from fedflat.report.load import ReportRun


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
