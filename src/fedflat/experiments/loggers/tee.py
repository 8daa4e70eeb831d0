"""A run folder that also sends its rows to loggers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedflat.execution.client_states import ClientStates
from fedflat.experiments.loggers.logger import Logger, loggers_of, numbers
from fedflat.experiments.run_folder.description_store import DescriptionStore
from fedflat.experiments.run_folder.groups import Grouped
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.model_files import Named
from fedflat.experiments.run_folder.run_folder import FIRST, DiskRunFolder, RunFolder
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.state import RunState
from fedflat.files import own_folder


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
        self.run_folder, self.place, self.print_line = (
            run_folder,
            run_folder.place,
            run_folder.print_line,
        )
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
        """Write an evaluation and log it."""
        self.run_folder.write(row)
        self._call(lambda logger: logger.row(row["round"], numbers(row)))

    def write_recorded(self, row: Row) -> None:
        """Write recorded metrics and log them."""
        self.run_folder.write_recorded(row)
        self._call(lambda logger: logger.row(row["round"], numbers(row)))

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        self.run_folder.checkpoint(run, force=force)

    def change_execution(self, execution: Mapping[str, Any]) -> None:
        """Record other settings of execution in the run folder."""
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
