"""A run folder loaded for analysis: its data, learner and models. The folder is not changed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fedflat.analysis.analysis_store import AnalysisStore
from fedflat.client.learner import ModelLike
from fedflat.core.flat import Model
from fedflat.data.examples import ClientData
from fedflat.data.files.paths import remembered
from fedflat.errors import RunError, SettingError
from fedflat.experiments.descriptions import load_descriptions
from fedflat.experiments.experiment import Experiment, from_texts
from fedflat.experiments.model_selection import final_models
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_folder.fingerprint import check_same_origin, origin_of
from fedflat.experiments.run_folder.groups import Grouped, read_groups
from fedflat.experiments.run_folder.model_files import read_model, unnamed
from fedflat.experiments.run_folder.record import RunEnd, RunRecord, read_record
from fedflat.experiments.run_folder.study_file import is_run, runs_in
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.state import RunState, last_state


@dataclass(frozen=True)
class LoadedRun:
    folder: Path
    module: ModelLike | None = None
    """The module of the run, if it was given in Python."""

    @cached_property
    def experiment(self) -> Experiment:
        """The experiment of the run."""
        return from_texts(self.record.experiment, model=self.module, exact=False)

    @property
    def name(self) -> str:
        """Method and seed as text."""
        return f"{self.experiment.method}, seed {self.experiment.seed}"

    @cached_property
    def setup(self) -> RunSetup:
        with remembered(self.record.origin.place):
            setup = prepare(self.experiment)
            check_same_origin(self.folder, self.record.origin, origin_of(setup))
        return load_descriptions(setup, self.folder, self.record.identity)

    @property
    def store(self) -> AnalysisStore:
        return AnalysisStore(self.folder / "analysis", self.record.identity)

    @cached_property
    def record(self) -> RunRecord:
        return read_record(self.folder)

    @property
    def end(self) -> RunEnd:
        assert self.record.end is not None
        return self.record.end

    @property
    def stored_groups(self) -> Grouped | None:
        return read_groups(self.folder, self.record.identity)

    @cached_property
    def models(self) -> dict[str, Model]:
        """The last models by name: final ones, or those of the last checkpoint of a running run."""
        if self.checkpoint_round is not None:
            return final_models(self.setup, self.state)
        return {
            name: unnamed(
                self.setup.job.learner, read_model(self.folder, self.end, name), self.folder
            )
            for name in self.end.models
        }

    @property
    def reported(self) -> str:
        """Name of the model whose scores the run reports."""
        return list(self.models)[-1] if self.checkpoint_round is not None else self.end.reported

    @cached_property
    def checkpoint_round(self) -> int | None:
        return self.state.round if self.record.running else None

    @property
    def round_setting(self) -> dict[str, int]:
        """The round, if the run is not finished: its analyses are of this round only."""
        return {} if self.checkpoint_round is None else {"round": self.checkpoint_round}

    @property
    def unfinished(self) -> str:
        """A sentence if the run is not finished, else ""."""
        if self.checkpoint_round is None:
            return ""
        return f"{self.folder} is not finished: its model of round {self.checkpoint_round} is used."

    def model_text(self, model: str) -> str:
        """Return the name of a model as `RUN:MODEL`, with the round if the run is not finished."""
        return f"{self.folder}:{model}" + (
            "" if self.checkpoint_round is None else f" in round {self.checkpoint_round}"
        )

    @cached_property
    def state(self) -> RunState:
        """The state of the run in its newest intact checkpoint."""
        return last_state(self.folder, self.record.identity)

    def model(self, name: str | None) -> tuple[str, Model]:
        """Return name and parameters of a model.

        With None it is the model that the run reports: the last averaged model if there is one.
        """
        chosen = name or self.reported
        if chosen not in self.models:
            raise SettingError(
                f"{self.folder} has no model {chosen!r}, only {', '.join(self.models)}. "
                "Choose one of them."
            )
        return chosen, self.models[chosen]

    def examples(self, where: str) -> ClientData:
        """Return the examples "test", "train" (of all clients), or "client:3"."""
        fed = self.setup.fed
        if where == "test":
            return fed.test
        if where == "train":
            return fed.pooled().data(0)
        kind, _, place = where.partition(":")
        if kind == "client" and re.fullmatch("[0-9]{1,12}", place) and int(place) < fed.population:
            return fed.data(int(place))
        raise SettingError(
            "the set must be test, train, or client:K with K from 0 to "
            f"{fed.population - 1}, found {where!r}."
        )


def loaded_runs(
    folders: list[Path], on_message: Callable[[str], object] = lambda text: None
) -> list[LoadedRun]:
    """Return the runs in these run and study folders.

    Of a study, only runs that have started are returned. `on_message` is called with a sentence
    about the others.
    """
    loaded: list[LoadedRun] = []
    for folder in folders:
        started = runs_in(folder, on_message)
        if not started:
            raise RunError(f"no run of {folder} has started. Run it with: fedflat resume {folder}")
        loaded += [LoadedRun(run) for run in started]
    return loaded


def one_model(text: str) -> tuple[LoadedRun, str, Model]:
    """Return the run, the name and the model of a text `RUN` or `RUN:MODEL`."""
    folder, name = Path(text), None
    if not os.path.lexists(folder) and ":" in text:
        folder, name = Path(text.rpartition(":")[0]), text.rpartition(":")[2]
    if not is_run(folder):
        raise RunError(
            f"{folder} is not a run folder: it has no run.json. "
            "Give a run folder, or RUN:MODEL for one of its models."
        )
    loaded = LoadedRun(folder)
    return loaded, *loaded.model(name)
