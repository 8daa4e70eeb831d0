"""What a tracker is, which there are, and what one is told."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from fedflat.errors import SettingError, nearest
from fedflat.files import own_folder

LONGEST = 500
"""Letters of a setting; longer ones, such as the batches of a replay, stay in run.json only."""


class Logger(Protocol):
    """Hears of one run. Whatever it raises ends the tracking, not the run."""

    def begin(self, facts: Mapping[str, Any], done: int) -> None:
        """The run of run.json begins, or goes on after ``done`` rounds: later rows that it has
        heard come again."""
        ...

    def row(self, round: int, numbers: Mapping[str, float]) -> None:
        """What was measured after a round."""
        ...

    def end(self, status: str) -> None:
        """The run is "done", has "diverged", or was "stopped" and may go on."""
        ...


SINKS: dict[str, tuple[str, ...]] = {
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    "mlflow": ("mlflow", "sqlalchemy", "alembic"),
}
"""The trackers, and the libraries each needs. Each has the module of its name."""
_CLASSES = {"tensorboard": "TensorBoardLogger", "wandb": "WandbLogger", "mlflow": "MLflowLogger"}


def names_of(text: str | None) -> list[str]:
    """The trackers that a text names.

    >>> names_of("wandb, tensorboard"), names_of(None), names_of("none")
    (['wandb', 'tensorboard'], [], [])
    """
    names = (
        []
        if text in (None, "", "none")
        else list(dict.fromkeys(name.strip() for name in str(text).split(",")))
    )
    for name in names:
        if name not in SINKS:
            raise SettingError(
                f"track: unknown tracker {name!r}.{nearest(name, SINKS)} Known: {', '.join(SINKS)}, or none."
            )
    return names


def check_installed(text: str | None) -> None:
    """Refuse trackers whose libraries are not there."""
    for name in names_of(text):
        missing = [library for library in SINKS[name] if find_spec(library) is None]
        if missing:
            raise SettingError(
                f"track: {name} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not "
                f"installed. Install with: pip install 'fedflat[{name}]', or leave {name} out."
            )


def open_logger(name: str, folder: Path) -> Logger:
    """The tracker of this name, for the run in ``folder``."""
    own_folder(folder / ("mlruns" if name == "mlflow" else name))
    module = import_module(f"fedflat.experiments.loggers.{name}")
    opened: Logger = getattr(module, _CLASSES[name])(folder)
    return opened


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row, those in tables and lists under joined names.

    >>> numbers({"round": 3, "loss": 0.5, "model": "swa", "models": {"swa": {"loss": 0.25}}, "classes": [1.0, 0.0]})
    {'loss': 0.5, 'models/swa/loss': 0.25, 'classes/0': 1.0, 'classes/1': 0.0}
    """
    flat = _flat({name: value for name, value in row.items() if name != "round"})
    return {
        name: float(v)
        for name, v in flat.items()
        if isinstance(v, int | float) and not isinstance(v, bool)
    }


def settings(facts: Mapping[str, Any]) -> dict[str, str]:
    """The settings of the run by joined names; very long ones are left out.

    >>> settings({"experiment": {"method": "fedavg()", "local": {"lr": 0.1, "steps": None}}})
    {'method': 'fedavg()', 'local/lr': '0.1'}
    """
    said = {
        name: str(value) for name, value in _flat(facts["experiment"]).items() if value is not None
    }
    return {name: value for name, value in said.items() if len(value) <= LONGEST}


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list) and all(isinstance(inner, int | float) for inner in value):
        pairs = list(enumerate(value))
    else:
        return {name: value}
    return {
        k: v
        for key, inner in pairs
        for k, v in _flat(inner, f"{name}/{key}" if name else str(key)).items()
    }
