"""Checkpoints: named groups of tensors in files, and a list of which file holds which group.

Nothing is ever changed in place. A group whose tensors are those of the last checkpoint is not written
again, so a checkpoint costs what changed. A file is written under another name, synced and renamed; the
list comes last. The last two checkpoints are kept, and every file is checked against its digest when read.

What clients remember is in one file, in which records are written once (see `fedflat.client.states`): a group says
which of them count.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from fedflat.client.states import FILE
from fedflat.files import Damaged, digest, pack, unwritable, write_file

Group = dict[str, Tensor]


class Store:
    """The ``checkpoint`` folder of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._last: dict[str, Group] = {}
        self._files: dict[str, list[str]] = {}
        self._count = 0

    def write(self, round: int, groups: dict[str, Group], facts: dict[str, Any]) -> None:
        """Make the checkpoint of ``round``."""
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise unwritable(self.folder, error) from error
        files = {}
        for name, group in groups.items():
            if name not in self._files or not _same(group, self._last[name]):
                files[name] = self._write_group(round, group)
            else:
                files[name] = self._files[name]
        content = {"round": round, **facts, "groups": files}
        body = json.dumps(content)
        whole = {"digest": digest(body.encode()).hex(), "body": body}
        write_file(self.folder / f"round-{round:07d}.json", json.dumps(whole).encode())
        self._last, self._files = {name: dict(group) for name, group in groups.items()}, files
        self._sweep()

    def _write_group(self, round: int, group: Group) -> list[str]:
        content = pack(group)
        self._count += 1
        name = f"{round:07d}-{os.getpid()}-{self._count}.safetensors"
        write_file(self.folder / name, content)
        return [name, digest(content).hex()]

    def rounds(self) -> list[int]:
        """The rounds there is a checkpoint of, newest first."""
        names = [path.stem for path in self.folder.glob("round-*.json")]
        return sorted((int(name.removeprefix("round-")) for name in names), reverse=True)

    def read(self, round: int) -> tuple[dict[str, Group], dict[str, Any]]:
        """The groups and facts of a checkpoint; `Damaged` if any byte of it is wrong."""
        try:
            facts = self._list(round)
            files = facts.pop("groups")
            groups = {name: self._read_group(*file) for name, file in files.items()}
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise Damaged(str(error)) from error
        self._last, self._files = {name: dict(group) for name, group in groups.items()}, files
        return groups, facts

    def group(self, round: int, name: str) -> Group:
        """One group of a checkpoint; nothing if it has none or cannot be read."""
        try:
            return self._read_group(*self._list(round)["groups"][name])
        except (Damaged, OSError, ValueError, KeyError, TypeError, SafetensorError):
            return {}

    def _list(self, round: int) -> dict[str, Any]:
        """What the list of a checkpoint says; `Damaged` if it is not as it was written."""
        try:
            whole = json.loads((self.folder / f"round-{round:07d}.json").read_bytes())
            body, sign = whole["body"], whole["digest"]
            if digest(body.encode()).hex() != sign:
                raise Damaged("its list of files does not have the digest it had when it was written")
            return json.loads(body)  # type: ignore[no-any-return]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged(f"its list of files cannot be read: {error}") from error

    def _read_group(self, name: str, sign: str) -> Group:
        content = (self.folder / name).read_bytes()
        if digest(content).hex() != sign:
            raise Damaged(f"{name} does not have the digest it had when it was written")
        return load(content)

    def forget(self, round: int) -> None:
        """Remove a damaged checkpoint, so that it is not taken for one again."""
        (self.folder / f"round-{round:07d}.json").unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Keep the last two checkpoints whose lists can be read, and the files they name."""
        kept, named = 0, {FILE}
        for round in self.rounds():
            try:
                files = {file for file, _ in self._list(round)["groups"].values()}
            except Damaged:
                continue
            named |= {f"round-{round:07d}.json", *files}
            kept += 1
            if kept == 2:
                break
        for path in self.folder.iterdir():
            if path.name not in named:
                path.unlink()


def _same(a: Group, b: Group) -> bool:
    return a.keys() == b.keys() and all(a[name] is b[name] for name in a)
