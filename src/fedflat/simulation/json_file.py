"""Read a JSON file that has an entry for every client, by client number."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedflat.errors import DataError, SettingError, shown
from fedflat.files import Damaged, parse_json, read_file

MAX_NAMES = 5
"""Largest number of clients that a message names."""
FORM = 'must hold an object with an entry for every client, as in {"0": ..., "1": ...}'


def check_path(owner: str, path: object) -> None:
    """Raise `SettingError` if `path` cannot be the path of a file."""
    if not isinstance(path, str) or not path or "\0" in path:
        raise SettingError(
            f"{owner}: the path of a JSON file is needed, in quotes, found {shown(path)}."
        )


def content_of(owner: str, path: str) -> bytes:
    try:
        content = read_file(Path(os.path.expanduser(path)))
    except Damaged as error:
        raise DataError(f"{owner}: {path!r} cannot be read: {error}. Give a JSON file.") from None
    if content is None:
        raise DataError(
            f"{owner}: there is no file {path!r}. Give a JSON file with an entry for every client."
        )
    return content


def digest_of(owner: str, path: str) -> str:
    """Return a digest of the file. A run with another file is another run."""
    return sha256(content_of(owner, path)).hexdigest()


def entries_of(owner: str, path: str) -> dict[str, Any]:
    """Return the entries of the file, by client number as text."""
    try:
        entries = parse_json(content_of(owner, path))
    except Damaged as error:
        raise DataError(f"{owner}: {path!r} {FORM}, but is not JSON: {error}.") from None
    if not isinstance(entries, dict):
        raise DataError(f"{owner}: {path!r} {FORM}, found {shown(entries)}.")
    return entries


def refuse_missing(owner: str, path: str, entries: dict[str, Any], population: int) -> None:
    """Raise `DataError` if the file has no entry for some of the clients."""
    missing = [client for client in range(population) if str(client) not in entries]
    if missing:
        names = ", ".join(map(str, missing[:MAX_NAMES])) + (
            ", ..." if len(missing) > MAX_NAMES else ""
        )
        raise DataError(
            f"{owner}: {path} has no entry for {len(missing)} of the {population} clients: "
            f'{names}. Add one for every client, from "0" to "{population - 1}".'
        )
