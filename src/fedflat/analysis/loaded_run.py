"""A run folder opened to be looked at: its data, its learner, its models. Nothing in it is
changed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fedflat.analysis.analysis_store import AnalysisStore
from fedflat.core.flat import Model
from fedflat.data.examples import ClientData
from fedflat.data.files.paths import remembered
from fedflat.errors import RunError, SettingError
from fedflat.experiments.descriptions import load_descriptions
from fedflat.experiments.experiment import Experiment, from_json
from fedflat.experiments.prepare import PreparedRun, prepare
from fedflat.experiments.reporting import models_of
from fedflat.experiments.run_folder.fingerprint import check_same_origin, origin_of
from fedflat.experiments.run_folder.model_files import read_model, unnamed
from fedflat.experiments.run_folder.record import Facts, read_facts
from fedflat.experiments.run_folder.study_file import is_run, runs_in
from fedflat.experiments.state import RunState, last_state


@dataclass(frozen=True)
class LoadedRun:
    """One run."""

    folder: Path

    @cached_property
    def experiment(self) -> Experiment:
        """What was run."""
        return from_json(self.facts["experiment"], exact=False)

    @property
    def name(self) -> str:
        """The run for people."""
        return f"{self.experiment.method}, seed {self.experiment.seed}"

    @cached_property
    def ready(self) -> PreparedRun:
        """Its data and learner."""
        with remembered(self.facts["origin"].get("place")):
            prepared = prepare(self.experiment)
            check_same_origin(self.folder, self.facts["origin"], origin_of(prepared))
        return load_descriptions(prepared, self.folder, self.facts["identity"])

    @property
    def shelf(self) -> AnalysisStore:
        """Where its analyses are kept."""
        return AnalysisStore(self.folder / "analysis", self.facts["identity"])

    @cached_property
    def facts(self) -> Facts:
        """What run.json says."""
        return read_facts(self.folder)

    @cached_property
    def models(self) -> dict[str, Model]:
        """Its last models by name: those of the end, or of the last checkpoint if it has not
        ended."""
        if self.standing is not None:
            return models_of(self.ready, self.state.round, self.state.models, self.state.averages)
        return {
            name: unnamed(
                self.ready.learner, read_model(self.folder, self.facts, name), self.folder
            )
            for name in self.facts["end"]["models"]
        }

    @property
    def reported(self) -> str:
        """The name of the model whose scores the run reports."""
        return (
            list(self.models)[-1]
            if self.standing is not None
            else str(self.facts["end"]["reported"])
        )

    @cached_property
    def standing(self) -> int | None:
        """The round of its last checkpoint, whose model is used, if it has not ended."""
        return self.state.round if self.facts["status"] == "running" else None

    @property
    def unfinished(self) -> str:
        """A sentence if the run has not ended."""
        if self.standing is None:
            return ""
        return f"{self.folder} has not ended: its model of round {self.standing} is used."

    def spelled(self, model: str) -> str:
        """One of its models as ``RUN:MODEL``; of a run that goes on, with the round."""
        return f"{self.folder}:{model}" + (
            "" if self.standing is None else f" in round {self.standing}"
        )

    @cached_property
    def state(self) -> RunState:
        """Where the run stands, by its newest checkpoint that is whole."""
        return last_state(self.folder, self.facts["identity"])

    def model(self, name: str | None) -> tuple[str, Model]:
        """A model by name; None: the one the run reports, that of its last shadow if it has one."""
        said = name or self.reported
        if said not in self.models:
            raise SettingError(
                f"{self.folder} has no model {said!r}, only {', '.join(self.models)}. Name one of them."
            )
        return said, self.models[said]

    def examples(self, where: str) -> ClientData:
        """The set "test", "train" (of all clients together), or "client:3"."""
        fed = self.ready.fed
        if where == "test":
            return fed.test
        if where == "train":
            return fed.pooled().data(0)
        kind, _, place = where.partition(":")
        if kind == "client" and re.fullmatch("[0-9]{1,12}", place) and int(place) < fed.population:
            return fed.data(int(place))
        raise SettingError(
            f"the set must be test, train, or client:K with K from 0 to {fed.population - 1}, found {where!r}."
        )


def loaded_runs(
    folders: list[Path], say: Callable[[str], object] = lambda text: None
) -> list[LoadedRun]:
    """The runs in these folders; a study is all its runs that have begun, and ``say`` is told if
    some have not."""
    found: list[LoadedRun] = []
    for folder in folders:
        begun = runs_in(folder, say)
        if not begun:
            raise RunError(f"no run of {folder} has begun. Run it with: fedflat resume {folder}")
        found += [LoadedRun(run) for run in begun]
    return found


def one_model(said: str) -> tuple[LoadedRun, str, Model]:
    """The run, the name and the model of a text ``RUN`` or ``RUN:MODEL``."""
    folder, name = Path(said), None
    if not os.path.lexists(folder) and ":" in said:
        folder, name = Path(said.rpartition(":")[0]), said.rpartition(":")[2]
    if not is_run(folder):
        raise RunError(
            f"{folder} is not a run folder: it has no run.json. Name a run, or RUN:MODEL for one of its models."
        )
    loaded = LoadedRun(folder)
    return loaded, *loaded.model(name)
