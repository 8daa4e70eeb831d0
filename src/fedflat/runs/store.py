"""Checkpoints: named groups of tensors in files, and a list of which file holds which group.

Nothing is ever changed in place. A group whose tensors are those of the last checkpoint is not written
again, so a checkpoint costs what changed. A file is written under another name, synced and renamed; the
list comes last. The last two checkpoints are kept, and every file is checked against its digest when read.
"""

from __future__ import annotations

import errno
import json
import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from fedflat.errors import RunError

Group = dict[str, Tensor]


class Damaged(Exception):
    """A checkpoint that cannot be read."""


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and see it to the disk."""
    fresh = path.with_name(path.name + ".new")
    try:
        with open(fresh, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(fresh, path)
        _sync_folder(path.parent)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> RunError:
    """The error of a file that could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RunError(
            f"the disk is full: {path} could not be written. What was written before is intact: free some space, "
            "then go on with `fedflat resume`."
        )
    return RunError(f"{path} could not be written: {error.strerror or error}. Check the folder and its permissions.")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
        whole = {"digest": _digest(body.encode()), "body": body}
        write_file(self.folder / f"round-{round:07d}.json", json.dumps(whole).encode())
        self._last, self._files = {name: dict(group) for name, group in groups.items()}, files
        self._sweep()

    def _write_group(self, round: int, group: Group) -> list[str]:
        content = pack(group)
        self._count += 1
        name = f"{round:07d}-{os.getpid()}-{self._count}.safetensors"
        write_file(self.folder / name, content)
        return [name, _digest(content)]

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

    def _list(self, round: int) -> dict[str, Any]:
        """What the list of a checkpoint says; `Damaged` if it is not as it was written."""
        try:
            whole = json.loads((self.folder / f"round-{round:07d}.json").read_bytes())
            body, digest = whole["body"], whole["digest"]
            if _digest(body.encode()) != digest:
                raise Damaged("its list of files does not have the digest it had when it was written")
            return json.loads(body)  # type: ignore[no-any-return]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged(f"its list of files cannot be read: {error}") from error

    def _read_group(self, name: str, digest: str) -> Group:
        content = (self.folder / name).read_bytes()
        if _digest(content) != digest:
            raise Damaged(f"{name} does not have the digest it had when it was written")
        return load(content)

    def forget(self, round: int) -> None:
        """Remove a damaged checkpoint, so that it is not taken for one again."""
        (self.folder / f"round-{round:07d}.json").unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Keep the last two checkpoints whose lists can be read, and the files they name."""
        kept, named = 0, set()
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


def pack(tensors: Group) -> bytes:
    """A safetensors file. Tensors that share their memory, as models share buffers, are written one by one."""
    seen: set[int] = set()
    apart = {}
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.clone(memory_format=torch.contiguous_format) if place in seen else tensor.contiguous()
        seen.add(place)
    return save(apart)


def _same(a: Group, b: Group) -> bool:
    return a.keys() == b.keys() and all(a[name] is b[name] for name in a)


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
