"""The model of a run as a file for other programs."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedflat.client.learner import ModelLike
from fedflat.errors import SettingError
from fedflat.experiments.run_folder.load import load
from fedflat.experiments.run_folder.model_card import ModelCard, WithPreparation
from fedflat.experiments.run_folder.record import read_record
from fedflat.files import pack, write_file

PROGRAMS = (".pt2", ".onnx")
"""Formats that hold the computation, not only the weights."""


def export(
    folder: str | Path,
    to: str | Path,
    *,
    model: str | None = None,
    module: ModelLike | None = None,
    raw: bool = False,
) -> ModelCard:
    """Write the model of a run to a file for other programs.

    Returns what the file takes and gives.

    folder
        The run folder.
    to
        The file: named tensors (.safetensors), a state dict of torch (.pt), a program of
        torch.export (.pt2), or ONNX (.onnx).
    model
        Another model than the run reports, such as "server" beside "swa".
    module
        The module of the run, if it was given in Python.
    raw
        True: the file takes inputs as they are stored, and normalizes them itself. False: it takes
        what the module takes.
    """
    card = ModelCard.of_record(read_record(Path(folder)))
    return write_model(partial(load, folder, model=model, module=module), Path(to), card, raw)


def check_format(to: Path, raw: bool) -> None:
    """Refuse a file name whose format is not known, or cannot hold what is wanted."""
    if to.suffix not in _FORMATS:
        raise SettingError(
            f"export: {to} must end in {', '.join(_FORMATS)}, found {to.suffix or 'nothing'!r}."
        )
    if raw and to.suffix not in PROGRAMS:
        raise SettingError(
            f"export: {to.suffix} holds weights only, so inputs are normalized outside. Leave raw "
            f"out, or export to {' or '.join(PROGRAMS)}."
        )


def write_model(
    make: Callable[[], nn.Module], to: Path, card: ModelCard, raw: bool = False
) -> ModelCard:
    """Write a module in evaluation mode; see `export`."""
    check_format(to, raw)
    module = make()
    dtype = next(module.parameters()).dtype
    if raw:
        card = card.taking_raw_inputs()
        assert card.prepared is not None
        module = WithPreparation(module, card.prepared, dtype).eval()
    write_file(to, _FORMATS[to.suffix](module, card.some_inputs(dtype), card))
    return card


def _safetensors(module: nn.Module, some: tuple[Tensor, ...], card: ModelCard) -> bytes:
    return pack(
        {name: tensor for name, tensor in module.state_dict().items() if isinstance(tensor, Tensor)}
    )


def _program(module: nn.Module, some: tuple[Tensor, ...], card: ModelCard) -> bytes:
    stream = io.BytesIO()
    torch.export.save(_exported(module, some), stream)
    return stream.getvalue()


def _state_dict(module: nn.Module, some: tuple[Tensor, ...], card: ModelCard) -> bytes:
    stream = io.BytesIO()
    torch.save(module.state_dict(), stream)
    return stream.getvalue()


def _onnx(module: nn.Module, some: tuple[Tensor, ...], card: ModelCard) -> bytes:
    missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
    if missing:
        raise SettingError(
            f"export: ONNX needs {' and '.join(missing)}, not installed here. Install with: pip "
            "install 'fedflat[onnx]', or export to .pt2 or .safetensors."
        )
    with _silent():
        program = torch.onnx.export(
            _exported(module, some),
            input_names=[one.name for one in card.inputs],
            output_names=[card.output],
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        content: Any = program.model_proto
    for key, value in card.metadata().items():
        entry = content.metadata_props.add()
        entry.key, entry.value = key, value
    return bytes(content.SerializeToString())


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


_FORMATS: dict[str, Callable[[nn.Module, tuple[Tensor, ...], ModelCard], bytes]] = {
    ".safetensors": _safetensors,
    ".pt": _state_dict,
    ".pt2": _program,
    ".onnx": _onnx,
}
