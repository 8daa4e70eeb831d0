"""Bytes on a disk: tensors packed, files written whole or not at all, and what is said if they cannot be."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from fedflat.errors import RunError


class Damaged(Exception):
    """Bytes that are not those which were written."""


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and see it to the disk."""
    fresh = path.with_name(path.name + ".new")
    try:
        with open(fresh, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(fresh, path)
        sync_folder(path.parent)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise unwritable(path, error) from error


def full(error: OSError) -> bool:
    """Whether it says that the disk is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def unwritable(path: Path, error: OSError) -> RunError:
    """The error of a file that could not be written."""
    if full(error):
        return RunError(
            f"the disk is full: {path} could not be written. What was written before is intact: free some space, "
            "then go on with `fedflat resume`."
        )
    return RunError(f"{path} could not be written: {error.strerror or error}. Check the folder and its permissions.")


def sync_folder(folder: Path) -> None:
    """See the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def pack(tensors: Mapping[str, Tensor]) -> bytes:
    """A safetensors file. Tensors that share their memory, as models share buffers, are written one by one."""
    seen: set[int] = set()
    apart = {}
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.clone(memory_format=torch.contiguous_format) if place in seen else tensor.contiguous()
        seen.add(place)
    return save(apart)


def digest(content: bytes) -> bytes:
    """Sixteen bytes that change with any byte of ``content``."""
    return blake2b(content, digest_size=16).digest()
