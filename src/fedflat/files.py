"""Bytes on a disk: files read only if they are files, written whole or not at all, and what is said
if that fails.

A run folder may come from anybody. No link in it is followed, nothing that is not a regular file is
opened to be read or written, and a new file is written under a name that nobody can have taken
beforehand.
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
"""Bytes of the longest text that is read."""
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Damaged(Exception):
    """Bytes that are not those which were written."""


def read_file(path: Path, limit: int | None = LIMIT) -> bytes | None:
    """The content of a file, None if it is not there; `Damaged` if it is a link, no file,
    unreadable or too long."""
    try:
        handle = os.open(path, os.O_RDONLY | _SAFELY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise Damaged(reason(error)) from None
    try:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            raise Damaged(f"it is {_kind(seen.st_mode)}, not a file")
        if limit is not None and seen.st_size > limit:
            raise Damaged(f"it has {seen.st_size:,} bytes, far too many for what it should hold")
        with open(handle, "rb", closefd=False) as stream:
            return stream.read() if limit is None else stream.read(limit)
    except (OSError, MemoryError) as error:
        raise Damaged(reason(error)) from None
    finally:
        os.close(handle)


def read_json(path: Path) -> Any:
    """What a JSON file says; `Damaged` if it is not there, or is no such file."""
    content = read_file(path)
    if content is None:
        raise Damaged("it is not there")
    return parse_json(content)


def parse_json(content: bytes | str) -> Any:
    """What JSON says; `Damaged` if it is none, or is nested more than `DEEPEST` levels deep."""
    return _parsed(json.loads, content)


def parse_toml(content: bytes) -> dict[str, Any]:
    """What TOML says; `Damaged` if it is none, or is nested more than `DEEPEST` levels deep."""
    found: dict[str, Any] = _parsed(lambda text: tomllib.loads(text.decode()), content)
    return found


def _parsed(parse: Callable[[Any], Any], content: bytes | str) -> Any:
    try:
        found = parse(content)
    except RecursionError:
        raise Damaged(_TOO_DEEP) from None
    except (ValueError, MemoryError) as error:  # bytes that are no UTF-8 among them
        raise Damaged(str(error) or type(error).__name__) from None
    level = [found]
    for _ in range(DEEPEST):  # not by recursion: the limit of that depends on the version of Python
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
"""Levels of lists and objects in a file that is read."""
_TOO_DEEP = "it is nested too deeply"


def open_file(path: Path, flags: int) -> int:
    """A handle of a file of one's own, made if it is not there; an OSError if it is a link or no
    file."""
    return _regular(os.open(path, flags | os.O_CREAT | _SAFELY, 0o666))


def open_bytes(path: Path) -> BinaryIO:
    """Open a file of the user for reading. Links are followed; a pipe, a device or a folder is an
    OSError."""
    return open(
        _regular(os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)), "rb"
    )


def read_bytes(path: Path) -> bytes:
    """The content of a file of the user, opened by `open_bytes`."""
    with open_bytes(path) as file:
        return file.read()


def open_text(path: Path, newline: str | None = None) -> TextIO:
    """The same as `open_bytes`, for a text in UTF-8."""
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8", newline=newline)


def _regular(handle: int) -> int:
    """The handle, or an OSError if it is not the handle of a regular file."""
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise OSError(errno.EINVAL, f"it is {_kind(mode)}, not a file")
    return handle


def hold(folder: Path) -> IO[bytes]:
    """Hold a folder until what is given is closed; an error if another process does."""
    try:
        lock = open(open_file(folder / "lock", os.O_RDWR), "rb")  # noqa: SIM115 (open as long as the folder is held)
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
    """Make a folder in a folder of one's own unless it is there."""
    refuse_link(path)
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error


def refuse_link(path: Path) -> None:
    """An error if it is a link, through which others' files would be changed."""
    if path.is_symlink():
        raise unwritable(path, OSError(errno.ELOOP, ""))


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and see it to the disk."""
    fresh = Path(f"{path}.{os.getpid()}{NEW}")
    try:
        fresh.unlink(
            missing_ok=True
        )  # left by a process of the same number that was killed, or a trap
        with open(
            os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, 0o666), "wb"
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
"""How the name of a file ends that is not whole yet."""


def discard(path: Path) -> None:
    """Remove a file or a link, if that can be done."""
    with suppress(OSError, ValueError):
        path.unlink(missing_ok=True)


def full(error: Exception) -> bool:
    """Whether it says that the disk is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def unwritable(path: Path, error: Exception) -> RunError:
    """The error of a file that could not be written."""
    if full(error):
        return RunError(
            f"the disk is full: {path} could not be written. What was written before is intact: free some space, "
            "then go on with `fedflat resume`."
        )
    return RunError(
        f"{path} could not be written: {reason(error)}. Check the folder and its permissions."
    )


def reason(error: Exception) -> str:
    """Why a file could not be opened, read or written, without the number of the error."""
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "it is a link, and links are not followed"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def sync_folder(folder: Path) -> None:
    """See the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def pack(tensors: Mapping[str, Tensor]) -> bytes:
    """A safetensors file. Tensors that share their memory, as models share buffers, are written one
    by one."""
    import torch
    from safetensors.torch import save

    seen: set[int] = set()
    apart = {}
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        apart[name] = (
            tensor.clone(memory_format=torch.contiguous_format)
            if place in seen
            else tensor.contiguous()
        )
        seen.add(place)
    return save(apart)


def digest(content: bytes) -> bytes:
    """Sixteen bytes that change with any byte of ``content``."""
    return blake2b(content, digest_size=16).digest()
