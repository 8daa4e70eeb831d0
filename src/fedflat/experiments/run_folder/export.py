"""The model of a run as a file for other programs, and what such a file says about its model."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from fedflat.client.learner import ModelLike
from fedflat.data.examples import arguments
from fedflat.data.info import DataInfo
from fedflat.errors import SettingError
from fedflat.experiments.run_folder.load import load
from fedflat.experiments.run_folder.record import ModelInput, Preparation, RunRecord, read_record
from fedflat.files import pack, write_file
from fedflat.registry.specs import parse

if TYPE_CHECKING:
    from fedflat.experiments.run_setup import RunSetup


@dataclass(frozen=True)
class NamedInput:
    name: str
    shape: tuple[int, ...]
    """The shape of one example."""
    dtype: str


@dataclass(frozen=True)
class ModelCard:
    """The inputs and outputs of a model.

    inputs
        Its inputs, without the dimension of the batch.
    output
        The name of its output: "logits", "values" or "embedding".
    """

    inputs: tuple[NamedInput, ...]
    output: str
    outputs: int
    """Number of outputs per example, such as classes."""
    prepared: Preparation | None = None
    """How stored inputs are normalized; None: not known."""
    class_names: tuple[str, ...] = ()
    column_names: tuple[str, ...] = ()
    segments: bool = False
    """True if each pixel has a class."""
    inside: bool = False
    """True if the model normalizes its inputs itself."""

    @classmethod
    def of_record(cls, record: RunRecord) -> ModelCard:
        origin, texts = record.origin, record.experiment
        dtype = "float64" if texts.dtype == "float64" else "float32"
        inputs = origin.module_inputs
        outputs = origin.classes if origin.outputs is None else origin.outputs
        info = record.recorded_info.data if record.recorded_info else None
        return cls._of(inputs, dtype, texts.task, outputs, origin.prepared, info)

    @classmethod
    def of_setup(cls, setup: RunSetup) -> ModelCard:
        from fedflat.experiments.run_folder.fingerprint import preparation_of

        learner, exp = setup.job.learner, setup.exp
        inputs = tuple(
            ModelInput(tuple(x.shape[1:]), not x.is_floating_point())
            for x in arguments(learner.sample)
        )
        dtype = str(learner.dtype).removeprefix("torch.")
        prepared, info = preparation_of(setup.fed), exp.on.full_info()
        return cls._of(inputs, dtype, repr(exp.task), learner.outputs, prepared, info)

    @classmethod
    def _of(
        cls,
        inputs: tuple[ModelInput, ...],
        dtype: str,
        task_text: str,
        outputs: int,
        prepared: Preparation | None,
        info: DataInfo | None,
    ) -> ModelCard:
        task = parse(task_text, "task")
        names = ["input"] if len(inputs) == 1 else [f"input_{k}" for k in range(len(inputs))]
        kind = task_text.partition("(")[0]
        output = {"regression": "values", "retrieval": "embedding"}.get(kind, "logits")
        return cls(
            tuple(
                NamedInput(name, one.shape, "int64" if one.whole else dtype)
                for name, one in zip(names, inputs, strict=True)
            ),
            output,
            outputs,
            prepared,
            (info.class_names or ()) if info else (),
            info.column_names if info else (),
            task.segments,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes, or their numbers."""
        return (*self.class_names, *map(str, range(len(self.class_names), self.outputs)))

    def taking_raw_inputs(self) -> ModelCard:
        """The card of the same model if it normalizes its inputs itself."""
        if self.prepared is None or len(self.inputs) != 1:
            raise SettingError(
                "export: the run does not record how its inputs are normalized. Leave raw out."
            )
        kind = "uint8" if self.prepared.bytes else self.inputs[0].dtype
        return replace(self, inputs=(replace(self.inputs[0], dtype=kind),), inside=True)

    def some_inputs(self, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """Inputs of zeros for two examples."""
        types = {"uint8": torch.uint8, "int64": torch.long}
        return tuple(
            torch.zeros(2, *one.shape, dtype=types.get(one.dtype, dtype)) for one in self.inputs
        )

    def metadata(self) -> dict[str, str]:
        """Texts that are stored in an ONNX file; lists are JSON."""
        known = self.prepared
        found = {"normalization": self.normalization()}
        if known is not None and known.mean:
            found |= {"mean": json.dumps(known.mean), "std": json.dumps(known.std)}
        if self.class_names:
            found["class_names"] = json.dumps(self.class_names)
        if self.column_names:
            found["column_names"] = json.dumps(self.column_names)
        return found

    def normalization(self) -> str:
        known = self.prepared
        if known is None:
            return "outside: not recorded"
        steps = ["divide bytes by 255"] if known.bytes else []
        steps += ["subtract mean, divide by std"] if known.mean else []
        where = "inside" if self.inside else "outside"
        return f"{where}: {', then '.join(steps)}" if steps else "none"

    def describe(self) -> str:
        """Inputs, outputs and normalization in one line."""
        inputs = ", ".join(
            f"{one.name} {one.dtype}[{', '.join(map(str, ('N', *one.shape)))}]"
            for one in self.inputs
        )
        names = self.class_names or tuple(map(str, range(self.outputs)))
        gives = {
            "values": f"values[N, {self.outputs}]",
            "embedding": f"embedding[N, {self.outputs}]",
        }.get(
            self.output,
            f"logits of {self.outputs} classes{' of each pixel' * self.segments} ({_few(names)})",
        )
        columns = f" ({_few(self.column_names)})" if self.column_names else ""
        return f"takes {inputs}{columns}; gives {gives}; normalization {self.normalization()}"


class WithPreparation(nn.Module):
    """A module that normalizes its inputs itself, as batches are normalized in training."""

    mean: Tensor
    std: Tensor

    def __init__(self, module: nn.Module, prepared: Preparation, dtype: torch.dtype) -> None:
        super().__init__()
        self.module, self.dtype = module, dtype
        self.scale = 255.0 if prepared.bytes else 1.0
        count = (1, -1)
        self.register_buffer("mean", torch.tensor(prepared.mean, dtype=dtype).view(count))
        self.register_buffer("std", torch.tensor(prepared.std, dtype=dtype).view(count))

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(self.dtype)
        if self.mean.numel():
            shape = (1, -1) + (1,) * (x.dim() - 2)
            x = (x - self.mean.view(shape) * self.scale) / (self.std.view(shape) * self.scale)
        elif self.scale != 1.0:
            x = x / self.scale
        output: Tensor = self.module(x)
        return output


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


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
