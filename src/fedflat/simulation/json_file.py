"""A JSON file with an entry for every client, by its number: what was measured at them."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedflat.errors import DataError, SettingError, shown
from fedflat.files import Damaged, parse_json, read_file

NAMED = 5
"""The most clients that a message names."""
FORM = 'must hold an object with an entry for every client, as in {"0": ..., "1": ...}'


def check_path(owner: str, path: object) -> None:
    """Refuse what cannot be the path of a file."""
    if not isinstance(path, str) or not path or "\0" in path:
        raise SettingError(
            f"{owner}: the path of a JSON file is needed, in quotes, found {shown(path)}."
        )


def content_of(owner: str, path: str) -> bytes:
    """The bytes of the file."""
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
    """A digest of the file: another one would be another run."""
    return sha256(content_of(owner, path)).hexdigest()


def entries_of(owner: str, path: str) -> dict[str, Any]:
    """The entries of the file, by the clients' numbers as texts."""
    try:
        said = parse_json(content_of(owner, path))
    except Damaged as error:
        raise DataError(f"{owner}: {path!r} {FORM}, but is not JSON: {error}.") from None
    if not isinstance(said, dict):
        raise DataError(f"{owner}: {path!r} {FORM}, found {shown(said)}.")
    return said


def refuse_missing(owner: str, path: str, entries: dict[str, Any], population: int) -> None:
    """Refuse a file in which there is no entry for some of the clients."""
    absent = [client for client in range(population) if str(client) not in entries]
    if absent:
        names = ", ".join(map(str, absent[:NAMED])) + (", ..." if len(absent) > NAMED else "")
        raise DataError(
            f"{owner}: {path} has no entry for {len(absent)} of the {population} clients: {names}. Give one for every "
            f'client, from "0" to "{population - 1}".'
        )
