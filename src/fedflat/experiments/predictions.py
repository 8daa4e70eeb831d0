"""Predictions of tables, arrays and images, with names and confidence.

result.predict(frame)                    of the model that a run in memory reports
predict("runs/wine", "new.csv")          of that in a run folder; no training data are needed
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedflat.client.learner import ModelLike
from fedflat.core.flat import Model
from fedflat.data.categories import tensor
from fedflat.data.files.pictures import ENDINGS, Picture
from fedflat.data.table import DataTable, as_table, read_csv
from fedflat.data.table_set import stacked
from fedflat.errors import SettingError, shown
from fedflat.experiments.run_folder.export import ModelCard, WithPreparation, write_model
from fedflat.experiments.run_folder.load import load
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.run_setup import RunSetup

AT_ONCE = 256
"""Examples in a batch."""


@dataclass(frozen=True, repr=False)
class ExamplePrediction:
    """The prediction of one example: a class with its confidence, or values."""

    name: str = ""
    """The most probable class; empty for values."""
    confidence: float = 0.0
    """Its probability, from 0 to 1."""
    shares: tuple[tuple[str, float], ...] = ()
    """Every class and its probability, the largest first."""
    values: tuple[float, ...] = ()

    def __str__(self) -> str:
        if self.values:
            return ", ".join(f"{value:.6g}" for value in self.values)
        return f"{self.name} ({100 * self.confidence:.1f} %)"

    __repr__ = __str__


class Predictions(list[ExamplePrediction]):
    """Predictions in the order of the examples; they print as a table."""

    def rows(self) -> list[dict[str, Any]]:
        """A dict for each example: class and probability, or the values."""
        return [
            {"row": place, **{f"value_{k}": value for k, value in enumerate(one.values)}}
            if one.values
            else {"row": place, "class": one.name, "probability": round(one.confidence, 6)}
            for place, one in enumerate(self)
        ]

    def frame(self) -> Any:
        """The predictions as a pandas DataFrame, with a column for each class."""
        pandas: Any = import_module("pandas")
        return pandas.DataFrame(
            [row | dict(one.shares) for row, one in zip(self.rows(), self, strict=True)]
        )

    def __repr__(self) -> str:
        lines = [f"{place}: {one}" for place, one in enumerate(self[:20])]
        more = [f"... and {len(self) - 20} more"] if len(self) > 20 else []
        return "\n".join([*lines, *more]) or "no predictions"


def predict(
    folder: str | Path,
    data: Any,
    *,
    model: str | None = None,
    module: ModelLike | None = None,
) -> Predictions:
    """Predict examples with the model of a run; the data that it was trained on are not needed.

    Returns class names and confidence, or values, in the order of the examples.

    folder
        The run folder.
    data
        A CSV file, a table as in `ff.table`, an array or a tensor of inputs as they were stored,
        or one or several paths of images. Columns are found by name; others are ignored.
    model
        Another model than the run reports, such as "server" beside "swa".
    module
        The module of the run, if it was given in Python.
    """
    folder = Path(folder)
    card = ModelCard.of_record(read_record(folder))
    return predict_with(load(folder, model=model, module=module), card, data)


@torch.no_grad()
def predict_with(module: nn.Module, card: ModelCard, data: Any) -> Predictions:
    """Predict examples with a module in evaluation mode; see `predict`."""
    if card.segments:
        raise SettingError(
            "predict: this run segments images. Write masks with `fedflat predict RUN IMAGE ...`."
        )
    if card.output == "embedding" or len(card.inputs) != 1:
        raise SettingError("predict: only classes and values of one input can be predicted.")
    whole = module if card.inputs[0].dtype == "int64" else _with_preparation(module, card)
    inputs, found = _inputs(card, data), Predictions()
    for part in inputs.split(AT_ONCE):
        output = whole(part)
        if output.dim() != 2:
            raise SettingError(
                f"predict: one output per example is needed, found {tuple(output.shape[1:])}."
            )
        found += map(_values, output) if card.output == "values" else _classes(card, output)
    return found


def _with_preparation(module: nn.Module, card: ModelCard) -> nn.Module:
    if card.prepared is None:
        raise SettingError(
            "predict: the run does not record how its inputs are normalized. Load its module, and "
            "normalize them yourself: fedflat.load(folder)."
        )
    return WithPreparation(module, card.prepared, next(module.parameters()).dtype).eval()


def _values(output: Tensor) -> ExamplePrediction:
    return ExamplePrediction(values=tuple(output.tolist()))


def _classes(card: ModelCard, output: Tensor) -> list[ExamplePrediction]:
    names, found = card.names, []
    for row in output.double().softmax(1)[:, : len(names)]:
        order = row.argsort(descending=True, stable=True).tolist()
        shares = tuple((names[place], float(row[place])) for place in order)
        found.append(ExamplePrediction(*shares[0], shares))
    return found


def _inputs(card: ModelCard, data: Any) -> Tensor:
    """The examples as they are stored, before normalization."""
    paths = [data] if isinstance(data, str | Path) else data
    if hasattr(data, "__len__") and len(data) == 0:
        raise SettingError("predict: give at least one example, found none.")
    if isinstance(paths, Sequence) and paths and all(isinstance(p, str | Path) for p in paths):
        if len(paths) == 1 and Path(paths[0]).suffix.lower() == ".csv":
            return _columns(card, read_csv(Path(paths[0]), "predict"))
        return _images(card, [Path(path) for path in paths])
    if isinstance(data, Tensor) or (hasattr(data, "__array__") and not hasattr(data, "columns")):
        return _same_shape(card, tensor("predict", "inputs", data))
    return _columns(card, replace(as_table(data, "predict"), where="predict: the table"))


def _columns(card: ModelCard, table: DataTable) -> Tensor:
    names = card.column_names
    if not names:
        raise SettingError(
            "predict: this run was not trained on a table with named columns. Give an array of "
            f"inputs of shape {card.inputs[0].shape}, or images."
        )
    if len(card.inputs[0].shape) > 1:
        return _same_shape(card, stacked(table, names[0]))
    return table.numbers(names, "Leave the row out, or write a number.")


def _same_shape(card: ModelCard, inputs: Tensor) -> Tensor:
    shape, found = card.inputs[0].shape, tuple(inputs.shape[1:])
    if found != shape:
        raise SettingError(f"predict: every input must have the shape {shape}, found {found}.")
    return inputs


def _images(card: ModelCard, paths: Sequence[Path]) -> Tensor:
    shape = card.inputs[0].shape
    wrong = [path for path in paths if path.suffix.lower() not in ENDINGS]
    if wrong or len(shape) != 3 or shape[0] not in (1, 3):
        raise SettingError(
            f"predict: give images to a run on images, or one CSV file to a run on a table, found "
            f"{shown(str((wrong or paths)[0]))} for inputs of shape {shape}."
        )
    pixels = torch.stack([Picture(shape[0], (shape[1], shape[2]))(str(path)) for path in paths])
    return pixels if card.prepared and card.prepared.bytes else pixels.float() / 255


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
