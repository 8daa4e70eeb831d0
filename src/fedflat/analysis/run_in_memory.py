"""A run without a folder, for analysis: its data, learner and last models."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fedflat.analysis.analysis_store import AnalysisStore
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.core.flat import Model
from fedflat.errors import SettingError
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.predictions import LastModels
from fedflat.experiments.run_folder.groups import Grouped
from fedflat.experiments.run_folder.record import RunRecord
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.state import RunState


@dataclass(frozen=True)
class RunInMemory(LoadedRun):
    """One run that has ended. Its ``folder`` is what messages call it."""

    last: LastModels = field(kw_only=True)
    place: Path = field(kw_only=True)
    """A folder for files of analyses."""

    @cached_property
    def experiment(self) -> Experiment:
        return self.setup.exp

    @cached_property
    def setup(self) -> RunSetup:
        return self.last.setup

    @property
    def store(self) -> AnalysisStore:
        return AnalysisStore(self.place / "analysis", "in memory")

    @property
    def stored_groups(self) -> Grouped | None:
        """None: the groups of clients are those that the topology makes."""
        return None

    @cached_property
    def models(self) -> dict[str, Model]:
        return dict(self.last.models)

    @property
    def reported(self) -> str:
        """Name of the model whose scores the run reports."""
        return list(self.models)[-1]

    @cached_property
    def checkpoint_round(self) -> int | None:
        return None

    @cached_property
    def record(self) -> RunRecord:
        """An error: there is no run.json."""
        raise self._needs_folder()

    @cached_property
    def state(self) -> RunState:
        """An error: the state of server and clients is not kept."""
        raise self._needs_folder()

    def _needs_folder(self) -> SettingError:
        return SettingError(
            "this analysis needs the state of server and clients, and a result in memory has the "
            "last models only. Give the run a folder: run(..., out='runs/mine')."
        )
