"""The model of a run folder as a module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedflat.client.learner import DTYPES, Learner, ModelLike
from fedflat.data.examples import Tensors
from fedflat.data.federation import DataSpec
from fedflat.data.files.paths import remembered
from fedflat.errors import RunError
from fedflat.experiments.descriptions import load_descriptions
from fedflat.experiments.experiment import from_texts
from fedflat.experiments.model_selection import final_weights
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_folder.fingerprint import (
    check_same_module,
    check_same_origin,
    module_digest,
    origin_of,
)
from fedflat.experiments.run_folder.model_files import Named, choose_model, module_of, read_model
from fedflat.experiments.run_folder.plugins_needed import refuse_unmet
from fedflat.experiments.run_folder.record import Origin, RunRecord, read_record
from fedflat.experiments.state import last_state
from fedflat.registry.specs import parse


def load(
    folder: str | Path,
    *,
    model: str | None = None,
    module: ModelLike | None = None,
    on: DataSpec | None = None,
) -> nn.Module:
    """Load the model of a run.

    ``model`` names another one than the run reports, such as "server" beside "swa". A module that
    was given in Python must be given again; so must data, as ``on``, if the run has not ended.

    folder
        The run folder.
    """
    folder = Path(folder)
    record = read_record(folder)
    if record.end is None:
        learner, models = _at_checkpoint(folder, record, module, on)
        return module_of(learner, models[choose_model(models, model, str(folder))], str(folder))
    learner = _learner(folder, record, module)
    name = choose_model(
        record.end.models, record.end.reported if model is None else model, str(folder)
    )
    return module_of(learner, read_model(folder, record.end, name), str(folder))


def _learner(folder: Path, record: RunRecord, module: ModelLike | None) -> Learner:
    """The learner of a run with its module; no data are needed."""
    texts, origin = record.experiment, record.origin
    refuse_without_module(folder, record, module)
    refuse_unmet(texts.plugins, exact=False)
    given: Any = parse(str(texts.model), "model") if module is None else module
    learner = Learner(
        given,
        origin.shape,
        origin.classes if origin.outputs is None else origin.outputs,
        seed=texts.seed,
        task=parse(texts.task, "task"),
        dtype=texts.dtype,
        sample=some_inputs(origin, DTYPES[texts.dtype]),
        pieces=parse(texts.method, "method").client,
    )
    check_same_module(folder, origin, module_digest(learner.module()))
    return learner


def refuse_without_module(folder: Path, record: RunRecord, module: ModelLike | None) -> None:
    """Refuse a run whose module was given in Python if it is not given again."""
    if record.experiment.model is None and module is None:
        raise RunError(
            f"{folder}: the run's module was given in Python and cannot be read from its folder. "
            "Give it again: module=... in Python, --module FILE:NAME on the command line."
        )


def _at_checkpoint(
    folder: Path, record: RunRecord, module: ModelLike | None, on: DataSpec | None
) -> tuple[Learner, dict[str, Named]]:
    with remembered(record.origin.place):
        setup = prepare(from_texts(record.experiment, on=on, model=module, exact=False))
        check_same_origin(folder, record.origin, origin_of(setup))
    setup = load_descriptions(setup, folder, record.identity)
    return setup.job.learner, final_weights(setup, last_state(folder, record.identity))


def some_inputs(origin: Origin, dtype: torch.dtype) -> Tensors:
    """Inputs of zeros for two examples, with the shapes and types of a run."""
    inputs = tuple(
        torch.zeros(2, *one.shape, dtype=torch.long if one.whole else dtype)
        for one in origin.module_inputs
    )
    return inputs if len(inputs) > 1 else inputs[0]
