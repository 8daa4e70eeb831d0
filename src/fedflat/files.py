"""Safe reading and writing of files.

A run folder may come from an untrusted source. So links in it are not followed, only regular files
are opened, and files are written under a new name and then moved into place, complete or not at
all.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import stat
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TextIO

from fedflat.errors import RunError

if TYPE_CHECKING:
    from torch import Tensor

LIMIT = 2**30
"""Most bytes of a text file that is read."""
_SAFE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Damaged(Exception):
    """A file whose content is not what was written."""


def read_file(path: Path, limit: int | None = LIMIT) -> bytes | None:
    """The content of a file; None if it does not exist.

    Raises `Damaged` if it is a link, not a regular file, unreadable or longer than ``limit`` bytes.
    """
    try:
        handle = os.open(path, os.O_RDONLY | _SAFE_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise Damaged(reason(error)) from None
    try:
        metadata = os.fstat(handle)
        if not stat.S_ISREG(metadata.st_mode):
            raise Damaged(f"it is {_kind(metadata.st_mode)}, not a file")
        if limit is not None and metadata.st_size > limit:
            raise Damaged(
                f"it has {metadata.st_size:,} bytes, far too many for what it should hold"
            )
        with open(handle, "rb", closefd=False) as stream:
            return stream.read() if limit is None else stream.read(limit)
    except (OSError, MemoryError) as error:
        raise Damaged(reason(error)) from None
    finally:
        os.close(handle)


def read_json(path: Path) -> Any:
    """The content of a JSON file; `Damaged` if it is missing or not JSON."""
    content = read_file(path)
    if content is None:
        raise Damaged("it is not there")
    return parse_json(content)


def parse_json(content: bytes | str) -> Any:
    """Parse JSON; `Damaged` if it is invalid or nested more than `DEEPEST` levels deep."""
    return _parse(json.loads, content)


def parse_toml(content: bytes) -> dict[str, Any]:
    """Parse TOML; `Damaged` if it is invalid or nested more than `DEEPEST` levels deep."""
    found: dict[str, Any] = _parse(lambda text: tomllib.loads(text.decode()), content)
    return found


def _parse(parse: Callable[[Any], Any], content: bytes | str) -> Any:
    try:
        found = parse(content)
    except RecursionError:
        raise Damaged(_TOO_DEEP) from None
    except (ValueError, MemoryError) as error:  # including UnicodeDecodeError
        raise Damaged(str(error) or type(error).__name__) from None
    level = [found]
    for _ in range(DEEPEST):  # a loop, because Python's recursion limit depends on its version
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, list | dict)
        ]
        if not level:
            return found
    raise Damaged(_TOO_DEEP)


DEEPEST = 100
"""Most levels of lists and objects in a file that is read."""
_TOO_DEEP = "it is nested too deeply"


def open_file(path: Path, flags: int) -> int:
    """Open a file of the run, created if missing. OSError if it is a link or not a regular file."""
    return _regular(os.open(path, flags | os.O_CREAT | _SAFE_FLAGS, 0o666))


def open_bytes(path: Path) -> BinaryIO:
    """Open a file of the user for reading.

    Links are followed. A pipe, a device or a folder is an OSError.
    """
    return open(
        _regular(os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)), "rb"
    )


def read_bytes(path: Path) -> bytes:
    """The content of a file of the user, see `open_bytes`."""
    with open_bytes(path) as file:
        return file.read()


def open_text(path: Path, newline: str | None = None) -> TextIO:
    """Like `open_bytes`, for text in UTF-8."""
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8", newline=newline)


def _regular(handle: int) -> int:
    """The handle; OSError if it does not belong to a regular file."""
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise OSError(errno.EINVAL, f"it is {_kind(mode)}, not a file")
    return handle


def hold(folder: Path) -> IO[bytes]:
    """Lock a folder until the returned file is closed; an error if it is locked already."""
    try:
        lock = open(open_file(folder / "lock", os.O_RDWR), "rb")  # noqa: SIM115 (the lock)
    except OSError as error:
        raise unwritable(folder / "lock", error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise RunError(
            f"another process is working in {folder}. Wait for it, or stop it first."
        ) from None
    return lock


def own_folder(path: Path) -> None:
    """Create a folder unless it exists."""
    refuse_link(path)
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error


def refuse_link(path: Path) -> None:
    """Refuse a link, through which files elsewhere would be changed."""
    if path.is_symlink():
        raise unwritable(path, OSError(errno.ELOOP, ""))


def write_file(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, and sync it to disk."""
    fresh = Path(f"{path}.{os.getpid()}{NEW}")
    try:
        # left by a killed process with the same id, or placed there by somebody else
        fresh.unlink(missing_ok=True)
        with open(
            os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE_FLAGS, 0o666), "wb"
        ) as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(fresh, path)
        sync_folder(path.parent)
    except (OSError, ValueError) as error:
        discard(fresh)
        raise unwritable(path, error) from error


NEW = ".new"
"""Suffix of files that are not complete yet."""


def discard(path: Path) -> None:
    """Remove a file or a link; errors are ignored."""
    with suppress(OSError, ValueError):
        path.unlink(missing_ok=True)


def full(error: Exception) -> bool:
    """True if the error means that the disk is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def unwritable(path: Path, error: Exception) -> RunError:
    """The error for a file that could not be written."""
    if full(error):
        return RunError(
            f"the disk is full: {path} could not be written. What was written before is intact: "
            "free some space, then continue with `fedflat resume`; a client of a deployment joins again."
        )
    return RunError(
        f"{path} could not be written: {reason(error)}. Check the folder and its permissions."
    )


def reason(error: Exception) -> str:
    """Why a file could not be opened, read or written, without the error number."""
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "it is a link, and links are not followed"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def pack(tensors: Mapping[str, Tensor]) -> bytes:
    """Tensors as a safetensors file. Tensors that share memory are written separately."""
    import torch
    from safetensors.torch import save

    storages: set[int] = set()
    separate = {}
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        separate[name] = (
            tensor.clone(memory_format=torch.contiguous_format)
            if place in storages
            else tensor.contiguous()
        )
        storages.add(place)
    return save(separate)


def digest(content: bytes) -> bytes:
    """A digest of sixteen bytes."""
    return blake2b(content, digest_size=16).digest()
