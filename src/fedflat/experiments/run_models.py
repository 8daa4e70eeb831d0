"""The models of a run: as modules, as files for other programs, and as predictors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from fedflat.client.learner import ModelLike
from fedflat.core.flat import Model
from fedflat.experiments.predictions import Predictions, predict_with
from fedflat.experiments.run_folder.export import write_model
from fedflat.experiments.run_folder.load import load
from fedflat.experiments.run_folder.model_card import ModelCard
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.run_setup import RunSetup


@dataclass(frozen=True)
class LastModels:
    """The last models of a run in memory, with its data and learner."""

    setup: RunSetup
    models: Mapping[str, Model]
    """By name; the last is reported."""


@dataclass(frozen=True)
class RunModels:
    """The models of a run, in memory or in a folder.

    module
        Makes the module of a model by name, or of the reported one.
    card
        Makes the description of what the models take and give.
    in_memory
        What analyses need of a run without a folder; None if the models are in a folder.
    """

    module: Callable[[str | None], nn.Module]
    card: Callable[[], ModelCard]
    in_memory: LastModels | None = None

    @classmethod
    def in_folder(cls, folder: Path, module: ModelLike | None) -> RunModels:
        """The models of a run folder; ``module`` as in `fedflat.load`."""
        return cls(
            lambda name: load(folder, model=name, module=module),
            lambda: ModelCard.of_record(read_record(folder)),
        )

    def export(self, to: Path, model: str | None, raw: bool) -> ModelCard:
        """Write a model to a file."""
        return write_model(partial(self.module, model), to, self.card(), raw)

    def predict(self, data: Any, model: str | None) -> Predictions:
        """Predict examples."""
        return predict_with(self.module(model), self.card(), data)
