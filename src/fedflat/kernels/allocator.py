"""Memory that is freed is used again instead of going back to the system.

A training step frees and asks for the same tensors over and over. By default glibc returns large
ones to the system at once, which clears every page again at the next step: on the CPU that is a
tenth to a fifth of the time.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
LARGEST = 2**31 - 1
TUNABLES = "GLIBC_TUNABLES"
HUGE = "glibc.malloc.hugetlb=1"


def keep_memory(below: int = 2**30) -> bool:
    """Tell glibc to keep what is freed, for tensors of less than ``below`` bytes; False where there
    is no glibc.

    Kept memory falls into pieces where large tensors of several sizes alternate: then the process
    grows.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    settings = {M_MMAP_THRESHOLD: below, M_TRIM_THRESHOLD: LARGEST, M_TOP_PAD: 2**26}
    told = [mallopt(name, value) for name, value in settings.items()]
    return all(told)


@contextmanager
def huge_pages() -> Iterator[None]:
    """Processes started in here ask for huge pages, unless the user has tuned glibc already."""
    if TUNABLES in os.environ:
        yield
        return
    os.environ[TUNABLES] = HUGE
    try:
        yield
    finally:
        del os.environ[TUNABLES]
