"""The base class of loggers, the loggers that a text names, and what they are sent."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from fedflat.errors import SettingError
from fedflat.execution.client_states import ClientStates
from fedflat.experiments.run_folder.description_store import DescriptionStore
from fedflat.experiments.run_folder.experiment_texts import ExperimentTexts
from fedflat.experiments.run_folder.groups import Grouped
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.model_files import Named
from fedflat.experiments.run_folder.record import RunRecord
from fedflat.experiments.run_folder.run_folder import FIRST, DiskRunFolder, RunFolder
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.state import RunState
from fedflat.files import own_folder
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


def with_loggers(run_folder: RunFolder, text: str | None) -> RunFolder:
    """The book itself, or one that also sends its rows to the loggers named in ``text``."""
    loggers = loggers_of(text)
    return (
        LoggedRunFolder(run_folder, loggers)
        if isinstance(run_folder, DiskRunFolder) and loggers
        else run_folder
    )


class LoggedRunFolder(RunFolder):
    """Writes into ``book``, then calls the loggers. A logger that fails is dropped, and the run
    continues."""

    def __init__(self, run_folder: DiskRunFolder, loggers: Sequence[Logger]) -> None:
        super().__init__()
        self.run_folder = run_folder
        self.place = run_folder.place
        self.print_line = run_folder.print_line
        self._loggers = list(loggers)
        self._call(lambda logger: own_folder(run_folder.folder / (logger.folder or logger.name)))

    def _call(self, what: Callable[[Logger], object]) -> None:
        """Call each logger; the libraries' own warnings are not shown."""
        for logger in list(self._loggers):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    what(logger)
            except Exception as error:
                self._loggers.remove(logger)
                self.run_folder.print_line(
                    f"the logger {logger.name} failed ({type(error).__name__}: {error}) and is "
                    "not used any more. The "
                    f"run continues, and {self.run_folder.folder} has all its numbers."
                )

    def resume(self, clients: ClientStates) -> RunState | None:
        """The state to continue from; loggers begin there."""
        run = self.run_folder.resume(clients)
        self.rows, self.recorded = self.run_folder.rows, self.run_folder.recorded
        self._call(
            lambda logger: logger.begin(
                self.run_folder.folder, self.run_folder.record, run.round if run else 0
            )
        )
        return run

    def before(self, setup: RunSetup, place: str = FIRST) -> RunFolder:
        """Open the folder of a run that comes first, without loggers."""
        return self.run_folder.before(setup, place)

    def write_groups(self, groups: Grouped | None) -> None:
        self.run_folder.write_groups(groups)

    def description_store(self) -> DescriptionStore:
        return self.run_folder.description_store()

    def write(self, row: Row) -> None:
        self.run_folder.write(row)
        self._call(lambda logger: logger.row(row["round"], numbers(row)))

    def write_recorded(self, row: Row) -> None:
        self.run_folder.write_recorded(row)
        self._call(lambda logger: logger.row(row["round"], numbers(row)))

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        self.run_folder.checkpoint(run, force=force)

    def change_execution(self, execution: Mapping[str, Any]) -> None:
        self.run_folder.change_execution(execution)

    def finish(self, status: str, models: Mapping[str, Named]) -> None:
        self.run_folder.finish(status, models)
        self.status = status
        self._end(status)

    def close(self) -> None:
        """Close the run folder. The loggers of an unfinished run end with the status "stopped"."""
        self._end("stopped")
        self.run_folder.close()

    def _end(self, status: str) -> None:
        self._call(lambda logger: logger.end(status))
        self._loggers.clear()
