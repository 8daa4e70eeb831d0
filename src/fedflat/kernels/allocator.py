"""Settings of glibc's allocator that reuse freed memory.

A training step frees and allocates the same tensors over and over. By default glibc returns large
blocks to the system at once, and the system clears every page again at the next step. On the CPU
that is a tenth to a fifth of the time.
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
    """Let glibc keep freed blocks of less than ``below`` bytes; False if there is no glibc.

    If large tensors of several sizes alternate, kept memory fragments and the process grows.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    settings = {M_MMAP_THRESHOLD: below, M_TRIM_THRESHOLD: LARGEST, M_TOP_PAD: 2**26}
    results = [mallopt(name, value) for name, value in settings.items()]
    return all(results)


@contextmanager
def huge_pages() -> Iterator[None]:
    """Let processes started in this context use huge pages, unless the user has tuned glibc."""
    if TUNABLES in os.environ:
        yield
        return
    os.environ[TUNABLES] = HUGE
    try:
        yield
    finally:
        del os.environ[TUNABLES]
