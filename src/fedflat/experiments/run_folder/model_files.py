"""The models a run ends with, each in a file that a module's own ``load_state_dict`` takes."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from torch import Tensor, nn

from fedflat.client.learner import Learner
from fedflat.core.flat import Model
from fedflat.errors import RunError, SettingError
from fedflat.experiments.run_folder.checkpoints import TensorFile, read_tensors, write_tensors
from fedflat.experiments.run_folder.record import RunEnd
from fedflat.files import Damaged, digest, pack, write_file

Named = dict[str, Tensor]
"""A model by its module's own names."""


def write_models(folder: Path, models: Mapping[str, Named]) -> dict[str, TensorFile]:
    """Write each model, the last of them, which is reported, as final.safetensors; what
    `read_models` must know."""
    reported = list(models)[-1]
    files = {
        name: "final" if name == reported else f"final-{quote(name, safe='')}" for name in models
    }
    return {
        name: write_tensors(folder / f"{files[name]}.safetensors", model)
        for name, model in models.items()
    }


def read_model(folder: Path, end: RunEnd, name: str) -> Named:
    """A model of a run that has ended; an error that says what to do if its file is damaged."""
    try:
        return read_tensors(folder, end.models[name])
    except Damaged as error:
        raise RunError(
            f"{folder}: its model {name!r} is damaged ({error}). `fedflat resume {folder}` writes "
            "it again."
        ) from None


def damaged_models(folder: Path, end: RunEnd) -> list[str]:
    """The models of a run that has ended whose files are damaged."""
    found = []
    for name, file in end.models.items():
        try:
            read_tensors(folder, file)
        except Damaged:
            found.append(name)
    return found


def rewrite_models(
    folder: Path, end: RunEnd, models: Mapping[str, Named], lost: Sequence[str]
) -> None:
    """Write the ``lost`` models of a run that has ended again, if they have the same digests."""
    for name in lost:
        entry, content = end.models[name], pack(models.get(name, {}))
        if digest(content).hex() != entry.digest or Path(entry.file).name != entry.file:
            raise RunError(
                f"{folder}: its last model {name!r} could not be made again from its checkpoint, "
                "which is not the one of its end. Run it again in another folder."
            )
        write_file(folder / entry.file, content)


def module_of(learner: Learner, named: Named, where: str) -> nn.Module:
    """A named model as the learner's module, ready to be used."""
    module = copy.deepcopy(learner.module()).to(device=learner.device, dtype=learner.dtype)
    state = {
        name: value for name, value in module.state_dict().items() if isinstance(value, Tensor)
    }
    if {name: t.shape for name, t in named.items()} != {name: t.shape for name, t in state.items()}:
        raise RunError(
            f"{where}: its model is not of this module: names or shapes differ. Give the module of "
            "the run."
        )
    module.load_state_dict(named, strict=len(state) == len(module.state_dict()))
    return module.eval()


def choose_model(models: Mapping[str, Any], name: str | None, where: str) -> str:
    """The name of one of the models; None: the last, which is reported."""
    chosen = list(models)[-1] if name is None else name
    if chosen not in models:
        raise SettingError(
            f"{where} has no model {chosen!r}, only {', '.join(models)}. Name one of them."
        )
    return chosen


def in_memory(learner: Learner, models: Mapping[str, Model], name: str | None = None) -> nn.Module:
    """One of a run's models as a module."""
    which = choose_model(models, name, "the run")
    return module_of(learner, learner.copy().state_dict_of(models[which]), "the run")


def unnamed(learner: Learner, named: Named, folder: Path) -> Model:
    """A named model as flat vectors; an error if it is not one of the learner's module."""
    fresh = learner.copy()
    shapes = {name: (t.shape, t.dtype) for name, t in fresh.state_dict_of(fresh.model()).items()}
    if {name: (t.shape, t.dtype) for name, t in named.items()} != shapes:
        raise RunError(
            f"{folder}: its last model is not of the run's module: names, shapes or types differ."
        )
    return fresh.from_state_dict(named)
