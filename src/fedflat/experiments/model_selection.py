"""The best model by the validation set: it is kept with the state of the run, and may end the run.

The test set is never read here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

import torch

from fedflat.core.flat import Model
from fedflat.data.federation import Federation
from fedflat.data.info import VALIDATION
from fedflat.errors import SettingError
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.model_files import Named
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.state import RunState
from fedflat.server.averaging import AverageState
from fedflat.tasks.headline import Headline
from fedflat.topologies.server_models import ServerModels

BEST = "best"
"""The name of the model that the validation set chose, and of its state in a run."""


@dataclass(frozen=True)
class ModelSelection:
    """Keeps the model of the evaluation with the best score on the validation set."""

    server: ServerModels
    headline: Headline
    keeps: bool = False
    """Whether the model is kept, as the one that the run reports."""
    patience: int | None = None
    """Rounds without a better score after which the run ends."""

    @property
    def active(self) -> bool:
        """Whether evaluations are to be taken into account."""
        return self.keeps or self.patience is not None

    def update(
        self,
        done: int,
        models: Mapping[str, Model],
        averages: MutableMapping[str, AverageState],
        row: Row,
    ) -> bool:
        """Take an evaluation into account, in ``averages``; whether the run ends here."""
        score = float(row.get("tests", {}).get(VALIDATION, {}).get(self.headline.name, math.nan))
        before = averages.get(BEST, {})
        if not before or self.headline.better(score, float(before["score"])):
            averages[BEST] = {
                "round": torch.tensor(done),
                "score": torch.tensor(score, dtype=torch.float64),
            }
            if self.keeps:
                named = self.server.by_name(done, models, averages)
                for name in named if self.server.reported_slots else list(named)[-1:]:
                    averages[BEST][f"params/{name}"] = named[name].params
                    averages[BEST][f"buffers/{name}"] = named[name].buffers
        if self.patience is None:
            return False
        return done - int(averages[BEST]["round"]) >= self.patience

    def models(
        self, averages: Mapping[str, AverageState], named: Mapping[str, Model]
    ) -> dict[str, Model]:
        """The models of a run and the kept one last; those of several slots as ``best-SLOT``."""
        kept = averages.get(BEST, {}) if self.keeps else {}
        names = [note.removeprefix("params/") for note in kept if note.startswith("params/")]
        found = {
            f"{BEST}-{name}": Model(kept[f"params/{name}"], kept[f"buffers/{name}"])
            for name in names
        }
        if found:
            found[BEST] = found.pop(f"{BEST}-{names[-1]}")
        return {**named, **found}


def open_selection(setup: RunSetup) -> ModelSelection:
    evaluate = setup.exp.evaluate
    return ModelSelection(
        setup.server, setup.exp.headline, evaluate.by_validation, evaluate.patience
    )


def final_weights(setup: RunSetup, run: RunState) -> dict[str, Named]:
    """The weights of all models of a run, by the names of the module; the reported one is last."""
    fresh = setup.job.learner.copy()
    return {name: fresh.state_dict_of(one) for name, one in final_models(setup, run).items()}


def final_models(setup: RunSetup, run: RunState) -> dict[str, Model]:
    """The models of a run by name; the last is reported: the validation set's choice, if any."""
    named = setup.server.by_name(run.round, run.models, run.averages)
    return open_selection(setup).models(run.averages, named)


def check_selection(exp: Experiment, fed: Federation) -> None:
    """Refuse to select by a validation set that does not exist."""
    evaluate = exp.evaluate
    if (evaluate.by_validation or evaluate.patience) and VALIDATION not in fed.tests:
        option = "--select-by validation" if evaluate.by_validation else "--patience"
        raise SettingError(
            f"{option} needs a validation set, and the data have none. Set examples aside: "
            "--validation 0.1."
        )
