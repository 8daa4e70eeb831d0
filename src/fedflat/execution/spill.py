"""Records in one file: written once, read in any order, and their room used again once freed.

A record is never changed in place, so one that a checkpoint names stays as it is until it is freed.
The states of one method are equally large, so that room for one is room for any other. The file is
read and written, not mapped: what the system keeps of it in its cache is the system's to give up,
and no part of this process's memory.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable
from mmap import ACCESS_COPY, mmap
from pathlib import Path
from typing import NamedTuple

from fedflat.errors import RunError
from fedflat.files import Damaged, digest, full, open_file, own_folder, sync_folder, unwritable


class Place(NamedTuple):
    """The position of a record, and its digest."""

    offset: int
    length: int
    digest: bytes
    """Empty in a temporary file, which no other process will read."""


class Spill:
    """A file of records at ``path``, in which those at ``places`` count; no path: a temporary one
    without a name.

    To open and read it changes nothing, even if another process is writing.
    """

    def __init__(self, path: Path | None = None, places: Iterable[Place] = ()) -> None:
        self.path = path
        self._handle = _temporary() if path is None else _opened(path)
        self._close = weakref.finalize(self, os.close, self._handle)
        self._end = 0
        self._free: dict[int, list[int]] = {}
        for place in sorted(set(places)):
            if place.offset > self._end:
                self._free.setdefault(place.offset - self._end, []).append(self._end)
            self._end = max(self._end, place.offset + place.length)

    def write(self, content: bytes) -> Place:
        """Write a record; return where it is."""
        place = Place(self._room(len(content)), len(content), digest(content) if self.path else b"")
        rest, offset = memoryview(content), place.offset
        try:
            while rest:
                done = os.pwrite(self._handle, rest, offset)
                rest, offset = rest[done:], offset + done
        except OSError as error:
            raise self._unwritable(error) from error
        return place

    def read(self, place: Place) -> bytes:
        """A record as it was written; `Damaged` if it is cut short."""
        pieces, offset, left = [], place.offset, place.length
        while left:
            piece = os.pread(self._handle, left, offset)
            if not piece:
                raise Damaged(f"a client's state ends {left} bytes too early")
            pieces.append(piece)
            offset, left = offset + len(piece), left - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def mapped(self) -> mmap:
        """The whole file as it is now, read when it is looked at; what is written there stays where
        it is."""
        return mmap(self._handle, self._end, access=ACCESS_COPY)

    def check(self, place: Place) -> None:
        """`Damaged` unless the record is what was written."""
        if digest(self.read(place)) != place.digest:
            raise Damaged("a client's state does not have the digest it had when it was written")

    def free(self, place: Place) -> None:
        """Give the room of a record back."""
        self._free.setdefault(place.length, []).append(place.offset)

    def sync(self) -> None:
        """See all records to the disk, and give back what lies behind the last one."""
        try:
            if os.fstat(self._handle).st_size > self._end:
                os.ftruncate(self._handle, self._end)
            os.fsync(self._handle)
        except OSError as error:
            raise self._unwritable(error) from error

    @property
    def nbytes(self) -> int:
        """The length of the file."""
        return self._end

    def _room(self, length: int) -> int:
        """A position with ``length`` free bytes: in the narrowest gap, else at the end."""
        gap = (
            length
            if length in self._free
            else min((n for n in self._free if n > length), default=0)
        )
        if not gap:
            offset, self._end = self._end, self._end + length
            return offset
        offset = self._free[gap].pop()
        if not self._free[gap]:
            del self._free[gap]
        if gap > length:
            self._free.setdefault(gap - length, []).append(offset + length)
        return offset

    def _unwritable(self, error: OSError) -> RunError:
        if self.path is None and full(error):
            return RunError(
                "the disk is full: client states beyond the memory allowed for them are kept in a "
                f"temporary file in {tempfile.gettempdir()}. Free some space, name another folder "
                "with $TMPDIR, or allow more memory."
            )
        return unwritable(self.path or Path(tempfile.gettempdir()), error)


def _opened(path: Path) -> int:
    try:
        own_folder(path.parent)
        handle = open_file(path, os.O_RDWR)
        sync_folder(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error
    return handle


def _temporary() -> int:
    try:
        handle, name = tempfile.mkstemp(prefix="fedflat-")
        os.unlink(name)
    except OSError as error:
        raise unwritable(Path(tempfile.gettempdir()), error) from error
    return handle
