"""A book that tells trackers what is written into another; one that fails is left alone, and the run goes on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from fedflat.executors.memories import ClientStates
from fedflat.folder.diary import Row
from fedflat.observe.trackers.tracker import Tracker, names_of, numbers, open_tracker
from fedflat.running.archive import Archive
from fedflat.running.model_files import Named
from fedflat.running.prepare import Ready
from fedflat.running.run_folder import FIRST, FolderBook, RunBook
from fedflat.running.state import Run


def tracked(book: RunBook, text: str | None) -> RunBook:
    """The book itself, or one that tells the trackers named in ``text`` as well."""
    names = names_of(text)
    return Tee(book, names) if isinstance(book, FolderBook) and names else book


class Tee(RunBook):
    """Writes into ``book``, then tells the trackers."""

    def __init__(self, book: FolderBook, names: list[str]) -> None:
        super().__init__()
        self.book, self.place, self.say = book, book.place, book.say
        self._trackers: dict[str, Tracker] = {}
        for name in names:
            self._try(name, self._open)

    def _open(self, name: str) -> None:
        self._trackers[name] = open_tracker(name, self.book.folder)

    def _tell(self, what: Callable[[Tracker], None]) -> None:
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
            self.book.say(
                f"tracking with {name} failed ({type(error).__name__}: {error}) and is given up. The run goes on, and "
                f"{self.book.folder} holds all its numbers."
            )

    def resume(self, clients: ClientStates) -> Run | None:
        """Where the book says to go on from; trackers begin there."""
        run = self.book.resume(clients)
        self.rows, self.watched = self.book.rows, self.book.watched
        self._tell(lambda tracker: tracker.begin(self.book.facts, run.round if run else 0))
        return run

    def before(self, ready: Ready, place: str = FIRST) -> RunBook:
        """As the book does; trackers are not told of it."""
        return self.book.before(ready, place)

    def gather(self, ready: Ready) -> None:
        """As the book does."""
        self.book.gather(ready)

    def archive(self) -> Archive:
        """As the book does."""
        return self.book.archive()

    def write(self, row: Row) -> None:
        """Write an evaluation and tell of it."""
        self.book.write(row)
        self._tell(lambda tracker: tracker.row(row["round"], numbers(row)))

    def see(self, row: Row) -> None:
        """Write what was seen and tell of it."""
        self.book.see(row)
        self._tell(lambda tracker: tracker.row(row["round"], numbers(row)))

    def checkpoint(self, run: Run, *, force: bool = False) -> None:
        """As the book does."""
        self.book.checkpoint(run, force=force)

    def remember(self, **facts: Any) -> None:
        """As the book does."""
        self.book.remember(**facts)

    def finish(self, status: str, models: Mapping[str, Named]) -> None:
        """Finish the book; trackers end."""
        self.book.finish(status, models)
        self.status = status
        self._end(status)

    def close(self) -> None:
        """Close the book; trackers of a run that has not come to its end hear that it was stopped."""
        self._end("stopped")
        self.book.close()

    def _end(self, status: str) -> None:
        self._tell(lambda tracker: tracker.end(status))
        self._trackers.clear()
