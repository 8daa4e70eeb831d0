"""Tensors in the answers of a worker process, passed in memory that it shares with its parent.

A pipe takes 64 KB at a time, so a large answer needs many switches between both processes. Here the
worker writes the tensors of an answer into shared memory, and only the rest goes through the pipe.
The memory has no name: it is freed with the two processes, however they end.
"""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.reduction import DupFd
from typing import Any

SIZE = 64 * 2**20
"""Bytes of the memory; larger answers use the pipe. Pages that are never written take no memory."""
LEAST = 2**14
"""Bytes of a tensor from which shared memory is faster than the pipe."""
ALIGNED = 64
"""Tensors begin at multiples of so many bytes."""
SHARED = b"shared: "
"""How a message begins whose tensors are in shared memory. A pickle never begins so."""


@dataclass(frozen=True)
class Answer:
    """The answer of a worker: a pickle, and the tensors that belong to it."""

    content: bytes
    tensors: Sequence[memoryview] = ()


class SharedAnswers:
    """Memory for the answers of one worker. Both processes have one, for the same memory."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = os.memfd_create("fedflat") if descriptor is None else descriptor
        if descriptor is None:
            os.ftruncate(self.descriptor, SIZE)
        self.memory = mmap.mmap(self.descriptor, SIZE)

    def __reduce__(self) -> Any:
        """A process that is being started gets a descriptor of its own."""
        return _reopened, (DupFd(self.descriptor),)

    def close(self) -> None:
        """Free the memory in this process."""
        self.memory.close()
        os.close(self.descriptor)

    def write(self, content: bytes, tensors: Sequence[pickle.PickleBuffer]) -> bytes | None:
        """The message for the pipe, when the tensors are in memory; None if they do not fit."""
        place, places = 0, list[tuple[int, int]]()
        for tensor in tensors:
            raw = tensor.raw()
            if place + raw.nbytes > SIZE:
                return None
            self.memory[place : place + raw.nbytes] = raw
            places.append((place, raw.nbytes))
            place += -(-raw.nbytes // ALIGNED) * ALIGNED
        return SHARED + pickle.dumps((content, places))

    def read(self, message: bytes) -> Answer:
        """The answer of a message, with copies of its tensors: the worker may write the next."""
        content, places = pickle.loads(memoryview(message)[len(SHARED) :])
        with memoryview(self.memory) as memory:
            copies = [memoryview(bytearray(memory[at : at + size])) for at, size in places]
        return Answer(content, copies)


def _reopened(handle: Any) -> SharedAnswers:
    return SharedAnswers(handle.detach())


def open_shared() -> SharedAnswers | None:
    """Shared memory for one worker; None on systems that have no memory without a name."""
    return SharedAnswers() if hasattr(os, "memfd_create") else None
