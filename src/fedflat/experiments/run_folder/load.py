"""The model of a run folder as a module, and as a file for others to use."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedflat.client.learner import DTYPES, Learner, ModelLike
from fedflat.data.batch import Tensors, arguments
from fedflat.data.federation import DataSpec
from fedflat.data.files.paths import remembered
from fedflat.errors import RunError, SettingError
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
from fedflat.files import pack, write_file
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
    if texts.model is None and module is None:
        raise RunError(
            f"{folder}: the run's module was given in Python and cannot be read from its folder. "
            "Give it again: fedflat.load(folder, module=...)."
        )
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


def _at_checkpoint(
    folder: Path, record: RunRecord, module: ModelLike | None, on: DataSpec | None
) -> tuple[Learner, dict[str, Named]]:
    with remembered(record.origin.place):
        setup = prepare(from_texts(record.experiment, on=on, model=module, exact=False))
        check_same_origin(folder, record.origin, origin_of(setup))
    setup = load_descriptions(setup, folder, record.identity)
    return setup.job.learner, final_weights(setup, last_state(folder, record.identity))


def export(folder: Path, to: Path, *, model: str | None = None) -> None:
    """Write a run's model: named tensors (.safetensors), a program of torch.export (.pt2), or ONNX
    (.onnx)."""
    write = _FORMATS.get(to.suffix)
    if write is None:
        raise SettingError(
            f"export: {to} must end in {', '.join(_FORMATS)}, found {to.suffix or 'nothing'!r}."
        )
    module = load(folder, model=model)
    some = some_inputs(read_record(folder).origin, next(module.parameters()).dtype)
    write_file(to, write(module, arguments(some)))


def some_inputs(origin: Origin, dtype: torch.dtype) -> Tensors:
    """Inputs of zeros for two examples, with the shapes and types of a run."""
    inputs = tuple(
        torch.zeros(2, *one.shape, dtype=torch.long if one.whole else dtype)
        for one in origin.module_inputs
    )
    return inputs if len(inputs) > 1 else inputs[0]


def _safetensors(module: nn.Module, some: tuple[Tensor, ...]) -> bytes:
    return pack(
        {name: tensor for name, tensor in module.state_dict().items() if isinstance(tensor, Tensor)}
    )


def _program(module: nn.Module, some: tuple[Tensor, ...]) -> bytes:
    stream = io.BytesIO()
    torch.export.save(_exported(module, some), stream)
    return stream.getvalue()


def _onnx(module: nn.Module, some: tuple[Tensor, ...]) -> bytes:
    missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
    if missing:
        raise SettingError(
            f"export: ONNX needs {' and '.join(missing)}, not installed here. Install with: pip "
            "install 'fedflat[onnx]', or export to .pt2 or .safetensors."
        )
    with _silent():
        program = torch.onnx.export(_exported(module, some), dynamo=True, verbose=False)
        assert program is not None
        return bytes(program.model_proto.SerializeToString())


def _exported(module: nn.Module, some: tuple[Tensor, ...]) -> torch.export.ExportedProgram:
    """The program of a module, for batches of any size where the module allows it."""
    try:
        with _silent():
            return torch.export.export(
                module, some, dynamic_shapes=tuple({0: torch.export.Dim.AUTO} for _ in some)
            )
    except Exception as error:
        why = str(error).strip().split("\n")[0][:200]
        raise SettingError(
            f"export: torch.export cannot follow this module ({type(error).__name__}: {why}). "
            "Export it to .safetensors."
        ) from error


@contextmanager
def _silent() -> Iterator[None]:
    """Hide the warnings that torch prints about its own parts."""
    logger = logging.getLogger("torch")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


_FORMATS: dict[str, Callable[[nn.Module, tuple[Tensor, ...]], bytes]] = {
    ".safetensors": _safetensors,
    ".pt2": _program,
    ".onnx": _onnx,
}
