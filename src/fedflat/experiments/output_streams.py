"""Standard output and standard error whose reader may leave.

After ``fedflat run ... 2>&1 | head -1`` has printed a line, `head` ends and closes the pipe. The
run goes on: what it prints from then on is dropped, and its files are written as if the reader
still read along.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast


class _Dropping:
    """A text stream whose output is dropped once its pipe has no reader."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        """Write what is buffered, or drop it."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop()
            self._stream.flush()

    def _drop(self) -> None:
        """Let the stream write to the null device, what it has buffered too."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def dropping(stream: TextIO) -> TextIO:
    """The stream, with its output dropped once its pipe has no reader."""
    return cast(TextIO, _Dropping(stream))


@contextmanager
def readers_may_leave() -> Iterator[None]:
    """Standard output and standard error drop their output once their pipe has no reader."""
    before = sys.stdout, sys.stderr
    # None: closed at the start.
    streams = [None if stream is None else dropping(stream) for stream in before]
    sys.stdout, sys.stderr = cast(tuple[TextIO, TextIO], streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in streams:
            if stream is not None:
                stream.flush()  # here, because Python's own flush at the end would fail
