"""A book that tells trackers what is written into another; one that fails is left alone, and the
run goes on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from fedflat.execution.client_states import ClientStates
from fedflat.experiments.loggers.logger import Logger, names_of, numbers, open_logger
from fedflat.experiments.prepare import PreparedRun
from fedflat.experiments.run_folder.description_store import DescriptionStore
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.model_files import Named
from fedflat.experiments.run_folder.run_folder import FIRST, DiskRunFolder, RunFolder
from fedflat.experiments.state import RunState


def with_loggers(run_folder: RunFolder, text: str | None) -> RunFolder:
    """The book itself, or one that tells the trackers named in ``text`` as well."""
    names = names_of(text)
    return (
        LoggedRunFolder(run_folder, names)
        if isinstance(run_folder, DiskRunFolder) and names
        else run_folder
    )


class LoggedRunFolder(RunFolder):
    """Writes into ``book``, then tells the trackers."""

    def __init__(self, run_folder: DiskRunFolder, names: list[str]) -> None:
        super().__init__()
        self.run_folder, self.place, self.say = run_folder, run_folder.place, run_folder.say
        self._trackers: dict[str, Logger] = {}
        for name in names:
            self._try(name, self._open)

    def _open(self, name: str) -> None:
        self._trackers[name] = open_logger(name, self.run_folder.folder)

    def _tell(self, what: Callable[[Logger], None]) -> None:
        for name in list(self._trackers):
            self._try(name, lambda name: what(self._trackers[name]))

    def _try(self, name: str, what: Callable[[str], None]) -> None:
        """Do it; what libraries warn each other of is not our user's business."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                what(name)
        except Exception as error:
            self._trackers.pop(name, None)
            self.run_folder.say(
                f"tracking with {name} failed ({type(error).__name__}: {error}) and is given up. The run goes on, and "
                f"{self.run_folder.folder} holds all its numbers."
            )

    def resume(self, clients: ClientStates) -> RunState | None:
        """Where the book says to go on from; trackers begin there."""
        run = self.run_folder.resume(clients)
        self.rows, self.watched = self.run_folder.rows, self.run_folder.watched
        self._tell(lambda tracker: tracker.begin(self.run_folder.facts, run.round if run else 0))
        return run

    def before(self, prepared: PreparedRun, place: str = FIRST) -> RunFolder:
        """As the book does; trackers are not told of it."""
        return self.run_folder.before(prepared, place)

    def write_groups(self, prepared: PreparedRun) -> None:
        """As the book does."""
        self.run_folder.write_groups(prepared)

    def description_store(self) -> DescriptionStore:
        """As the book does."""
        return self.run_folder.description_store()

    def write(self, row: Row) -> None:
        """Write an evaluation and tell of it."""
        self.run_folder.write(row)
        self._tell(lambda tracker: tracker.row(row["round"], numbers(row)))

    def see(self, row: Row) -> None:
        """Write what was seen and tell of it."""
        self.run_folder.see(row)
        self._tell(lambda tracker: tracker.row(row["round"], numbers(row)))

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        """As the book does."""
        self.run_folder.checkpoint(run, force=force)

    def remember(self, **facts: Any) -> None:
        """As the book does."""
        self.run_folder.remember(**facts)

    def finish(self, status: str, models: Mapping[str, Named]) -> None:
        """Finish the book; trackers end."""
        self.run_folder.finish(status, models)
        self.status = status
        self._end(status)

    def close(self) -> None:
        """Close the book; trackers of a run that has not come to its end hear that it was
        stopped."""
        self._end("stopped")
        self.run_folder.close()

    def _end(self, status: str) -> None:
        self._tell(lambda tracker: tracker.end(status))
        self._trackers.clear()
