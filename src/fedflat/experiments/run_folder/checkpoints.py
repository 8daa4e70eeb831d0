"""Checkpoints: named groups of tensors in files, and a list of which file holds which group.

Files are never changed in place. A group whose tensors are those of the last checkpoint is not
written again, so a checkpoint costs what changed. A file is written under another name, synced and
renamed; the list comes last. The last two checkpoints are stored, and every file is checked against
its digest when it is read. Other files in the folder are left alone.

Client state is in one file, in which records are written once (see
`fedflat.execution.client_states`); a group names the records that count.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedflat.core.json_schema import check
from fedflat.core.weight_files import tensors_in
from fedflat.experiments.run_folder.schema import FILE
from fedflat.files import (
    NEW,
    Damaged,
    digest,
    discard,
    own_folder,
    pack,
    parse_json,
    read_file,
    read_json,
    write_file,
)

if TYPE_CHECKING:
    from torch import Tensor

Group = dict[str, "Tensor"]
_LIST = re.compile(r"round-(\d{7,})\.json")
_OWN = re.compile(rf"(round-\d+\.json|\d+-\d+-\d+\.safetensors)(\.\d+{re.escape(NEW)})?")
"""Names of files that a `Store` writes."""
_WHOLE = {"digest": str, "body": str}
_BODY = {"round": int, "groups": {"*": FILE}, "*": object}


class TensorFile(NamedTuple):
    """A file of tensors beside the list that names it."""

    file: str
    """Its name, without a folder."""
    bytes: int
    digest: str


class Store:
    """The ``checkpoint`` folder of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._last: dict[str, Group] = {}
        self._files: dict[str, TensorFile] = {}
        self._count = 0

    def write(self, round: int, groups: dict[str, Group], numbers: dict[str, Any]) -> None:
        """Write the checkpoint of ``round``: groups of tensors, and numbers."""
        own_folder(self.folder)
        files = {}
        for name, group in groups.items():
            if name not in self._files or not _same(group, self._last[name]):
                files[name] = self._write_group(round, group)
            else:
                files[name] = self._files[name]
        named = {name: file._asdict() for name, file in files.items()}
        content = {"round": round, **numbers, "groups": named}
        body = json.dumps(content)
        whole = {"digest": digest(body.encode()).hex(), "body": body}
        write_file(self._path(round), json.dumps(whole).encode())
        self._last, self._files = {name: dict(group) for name, group in groups.items()}, files
        self._sweep()

    def _write_group(self, round: int, group: Group) -> TensorFile:
        self._count += 1
        return write_tensors(
            self.folder / f"{round:07d}-{os.getpid()}-{self._count}.safetensors", group
        )

    def _path(self, round: int) -> Path:
        return self.folder / f"round-{round:07d}.json"

    def rounds(self) -> list[int]:
        """The rounds there is a checkpoint of, newest first."""
        found = {int(match[1]) for name in self._names() if (match := _LIST.fullmatch(name))}
        return sorted((round for round in found if self._path(round).is_file()), reverse=True)

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.folder)
        except OSError:
            return []

    def read(self, round: int) -> tuple[dict[str, Group], dict[str, Any]]:
        """The groups and the numbers of a checkpoint; `Damaged` if any byte of it is wrong."""
        numbers = self._list(round)
        files = {name: TensorFile(**file) for name, file in numbers.pop("groups").items()}
        groups = {name: read_tensors(self.folder, file) for name, file in files.items()}
        self._last, self._files = {name: dict(group) for name, group in groups.items()}, files
        return groups, numbers

    def group(self, round: int, name: str) -> Group:
        """One group of a checkpoint; nothing if it has none or cannot be read."""
        try:
            return read_tensors(self.folder, TensorFile(**self._list(round)["groups"][name]))
        except (Damaged, KeyError):
            return {}

    def newest(self) -> dict[str, Any] | None:
        """The content of the newest list that can be read; None if there is none."""
        for round in self.rounds():
            try:
                return self._list(round)
            except Damaged:
                continue
        return None

    def _list(self, round: int) -> dict[str, Any]:
        """The content of the list of a checkpoint; `Damaged` if it is not as it was written."""
        try:
            whole = read_json(self._path(round))
            check(whole, _WHOLE)
            found: dict[str, Any] = parse_json(whole["body"])
            check(found, _BODY)
            same = digest(whole["body"].encode(errors="replace")).hex() == whole["digest"]
        except Damaged as error:
            raise Damaged(f"its list of files cannot be read: {error}") from None
        if not same or found["round"] != round:
            raise Damaged("its list of files does not have the digest it had when it was written")
        return found

    def forget(self, round: int) -> None:
        """Remove a damaged checkpoint."""
        discard(self._path(round))

    def _sweep(self) -> None:
        """Keep the last two checkpoints whose lists can be read, and the files they name."""
        needed: set[str] = set()
        lists = 0
        for round in self.rounds():
            try:
                files = {file["file"] for file in self._list(round)["groups"].values()}
            except Damaged:
                continue
            needed |= {self._path(round).name, *files}
            lists += 1
            if lists == 2:
                break
        for name in self._names():
            if name not in needed and _OWN.fullmatch(name):
                discard(self.folder / name)


def write_tensors(path: Path, tensors: Group) -> TensorFile:
    """Write a safetensors file; returns the entry of its list."""
    content = pack(tensors)
    write_file(path, content)
    return TensorFile(path.name, len(content), digest(content).hex())


def read_tensors(folder: Path, entry: TensorFile) -> Group:
    """The tensors of a file in ``folder``; `Damaged` if it does not match its entry."""
    if Path(entry.file).name != entry.file:
        raise Damaged(f"{entry.file!r} is not a file beside its list")
    try:
        content = read_file(folder / entry.file, limit=entry.bytes)
        if content is None:
            raise Damaged("it is not there")
        if digest(content).hex() != entry.digest:
            raise Damaged("it does not have the digest it had when it was written")
        return tensors_in(content)
    except Damaged as error:
        raise Damaged(f"{entry.file}: {error}") from None


def _same(a: Group, b: Group) -> bool:
    return a.keys() == b.keys() and all(a[name] is b[name] for name in a)
