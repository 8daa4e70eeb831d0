"""The base class of loggers, the loggers that a text names, and what they are sent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from fedflat.errors import SettingError
from fedflat.experiments.run_folder.experiment_texts import ExperimentTexts
from fedflat.experiments.run_folder.record import RunRecord
from fedflat.registry.plugins import plugin_of
from fedflat.registry.specs import name_of, parse_list

LONGEST = 500
"""Characters of a setting; longer ones, such as the batches of a replay, stay in run.json only."""


class Logger(ABC):
    """Receives the numbers of one run. An exception ends the logging, not the run.

    Subclasses are registered with ``register("logger", "name")``. The arguments of their
    constructor are those that the text may give, as in ``--logger "mine(project='x')"``.
    """

    libraries: ClassVar[tuple[str, ...]] = ()
    """The modules that must be installed."""
    folder: ClassVar[str] = ""
    """The folder that it writes into, within the run folder; its name if empty."""

    @property
    def name(self) -> str:
        """The name that it is registered under."""
        return name_of(type(self))

    @abstractmethod
    def begin(self, folder: Path, record: RunRecord, done: int) -> None:
        """Start logging the run in ``folder``. ``record`` is the content of run.json.

        A resumed run continues after ``done`` rounds. Rows of later rounds are sent again.
        """

    @abstractmethod
    def row(self, round: int, numbers: Mapping[str, float]) -> None:
        """Log the numbers measured after a round."""

    @abstractmethod
    def end(self, status: str) -> None:
        """Finish. ``status`` is "done", "diverged", or "stopped" for a run that can be resumed."""


def loggers_of(text: str | None) -> list[Logger]:
    """New loggers, one for each that a text names.

    >>> [one.name for one in loggers_of("wandb, tensorboard")], loggers_of(None), loggers_of("none")
    (['wandb', 'tensorboard'], [], [])
    """
    found = () if text in (None, "", "none") else parse_list(str(text), "logger")
    return list({type(logger): logger for logger in found}.values())


def check_installed(text: str | None) -> None:
    """Refuse loggers whose libraries are not installed."""
    for logger in loggers_of(text):
        missing = [library for library in logger.libraries if find_spec(library) is None]
        if missing:
            ours = plugin_of(type(logger).__module__) is None
            package = f"'fedflat[{logger.name}]'" if ours else " ".join(missing)
            raise SettingError(
                f"logger: {logger.name} needs {' and '.join(missing)}, which "
                f"{'is' if len(missing) == 1 else 'are'} "
                f"not installed. Install with: pip install {package}, or remove {logger.name} "
                "from --logger."
            )


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


def settings(experiment: ExperimentTexts) -> dict[str, str]:
    """The settings of the run by joined names; long ones are left out.

    >>> saved = {"method": "fedavg()", "local": {"lr": 0.1, "steps": None}}
    >>> settings(ExperimentTexts.from_json(saved))
    {'method': 'fedavg()', 'local/lr': '0.1'}
    """
    config = {
        name: str(value) for name, value in _flat(experiment.as_json()).items() if value is not None
    }
    return {name: value for name, value in config.items() if len(value) <= LONGEST}


def _flat(value: object, name: str = "") -> dict[str, Any]:
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
