"""Logs of a run: files with one JSON object per line, each tied to the line before it.

    {"round": 1, "loss": 2.3, "chain": "6f0a..."}

A line's last field is a digest of its text and of the digest before it; the first one is tied to
the identity of the run. So a changed byte, a missing line and a line of another run are noticed. A
last line without an end was cut short when the process was killed, and does not count.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from fedflat.core.json_schema import NUMBER, Schema, check, damaged
from fedflat.errors import RunError
from fedflat.experiments.run_folder.schema import ROWS
from fedflat.files import Damaged, open_file, parse_json, read_file, unwritable

Row = dict[str, Any]
LOGS = ("metrics", "recorded")
_TAIL = b', "chain": "%s"}'
_LENGTH = len(_TAIL % (b"0" * 16))
_ADVICE = "Put it back from a copy, or run it again in another folder."


class LogPosition(NamedTuple):
    """A position between two lines."""

    lines: int
    size: int
    chain: str
    """The digest of the line before it, or of the run."""

    def line(self, row: Row) -> tuple[bytes, LogPosition]:
        """The line of a row that is written here, and the position after it."""
        body = encode(row)[:-1]
        sign = _link(self.chain, body)
        line = body + _TAIL % sign.encode() + b"\n"
        return line, LogPosition(self.lines + 1, self.size + len(line), sign)


class JsonlLog:
    """One log of the run ``identity``. Only the process that holds the run's lock may write it."""

    def __init__(self, folder: Path, name: str, identity: str, scores: Iterable[str] = ()) -> None:
        """``scores`` are the names of further numbers in the rows of this run."""
        self.path = folder / f"{name}.jsonl"
        self.schema: Schema = {**ROWS[name], **{f"{score}?": NUMBER for score in scores}}
        self.mark = self.start = LogPosition(0, 0, _link(identity, name.encode()))

    def read(
        self, end: tuple[int, str] | None = None, past: LogPosition | None = None
    ) -> list[Row]:
        """All rows.

        ``end`` is the number of lines and the last digest of a run that has ended. ``past`` is a
        position that the log must have reached, because a checkpoint was written there.
        """
        *_, (mark, _) = pairs = [(self.start, Row()), *self._rows()]
        if end is not None and (mark.lines, mark.chain) != end:
            raise self._damaged(f"it has {mark.lines} whole lines, and the run ended with {end[0]}")
        if past is not None and past not in (at for at, _ in pairs):
            raise self._lost(past)
        return [row for _, row in pairs[1:]]

    def _lost(self, mark: LogPosition) -> RunError:
        return self._damaged(
            f"the checkpoint was written after its line {mark.lines}, which is not there any more"
        )

    def rewind(self, to: LogPosition | None) -> list[Row]:
        """Continue from a position, or from the beginning: drop later rows, return earlier ones."""
        to = to or self.start
        pairs = [(self.start, Row())]
        for pair in self._rows() if to.lines else ():
            pairs.append(pair)
            if pair[0].lines == to.lines:
                break
        if pairs[-1][0] != to:
            raise self._lost(to)
        try:
            if to.size or os.path.lexists(self.path):
                os.truncate(handle := open_file(self.path, os.O_WRONLY), to.size)
                os.close(handle)
        except OSError as error:
            raise unwritable(self.path, error) from error
        self.mark = to
        return [row for _, row in pairs[1:]]

    def take_up(self) -> list[Row]:
        """Continue from the last whole line; returns the rows so far."""
        *_, (mark, _) = pairs = [(self.start, Row()), *self._rows()]
        self.rewind(mark)
        return [row for _, row in pairs[1:]]

    def append(self, row: Row) -> None:
        """Write a row and sync it to the disk."""
        line, mark = self.mark.line(row)
        try:
            with open(open_file(self.path, os.O_WRONLY | os.O_APPEND), "ab") as stream:
                stream.write(line)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise unwritable(self.path, error) from error
        self.mark = mark

    def _rows(self) -> Iterator[tuple[LogPosition, Row]]:
        try:
            content = read_file(self.path) or b""
        except Damaged as error:
            raise self._damaged(error) from None
        mark = self.start
        for number, line in enumerate(content.split(b"\n")[:-1], 1):
            body = line[:-_LENGTH]
            sign = _link(mark.chain, body)
            if line[-_LENGTH:] != _TAIL % sign.encode():
                raise self._damaged(f"line {number} is not the one that was written there")
            try:
                row = _decoded(parse_json(body + b"}"))
                check(row, self.schema)
            except Damaged as error:
                raise self._damaged(f"line {number}: {error}") from None
            mark = LogPosition(number, mark.size + len(line) + 1, sign)
            yield mark, row

    def _damaged(self, why: object) -> RunError:
        return damaged(self.path, why, _ADVICE)


def _link(before: str, text: bytes) -> str:
    return blake2b(before.encode() + text, digest_size=8).hexdigest()


def encode(row: Row) -> bytes:
    """A row as JSON that every reader understands: NaN as null, infinity as 1e999, which readers
    take for infinity.

    >>> encode({"loss": math.nan, "norm": -math.inf})
    b'{"loss": null, "norm": -1e999}'
    """
    text = json.dumps(_encoded(row), allow_nan=False)
    return text.replace(_INFINITY, "1e999").replace(_MINUS, "-1e999").encode()


_INFINITY, _MINUS = (json.dumps(text) for text in ("\0inf", "\0-inf"))


def _encoded(value: object) -> Any:
    if isinstance(value, dict):
        return {key: _encoded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else f"\0{value}"
    return value


def _decoded(value: object) -> Any:
    if isinstance(value, dict):
        return {key: _decoded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_decoded(inner) for inner in value]
    return math.nan if value is None else value
