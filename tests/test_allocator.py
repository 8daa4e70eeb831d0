from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from fedflat.kernels.allocator import HUGE, TUNABLES, huge_pages, keep_memory

FAULTS = """
import resource, sys
if sys.argv[1] == "keep":
    from fedflat.kernels.allocator import keep_memory
    assert keep_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
b"1" * 2**26
before = faults()
for _ in range(20):
    b"1" * 2**26
print(faults() - before)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc",
    reason="the allocator settings are those of glibc, which this system does not use",
)
def test_kept_memory_is_not_paged_in_again() -> None:
    """A block of 64 MiB, made twenty times: by default every page of it comes from the system every
    time."""
    plain, kept = (
        int(
            subprocess.run(
                [sys.executable, "-c", FAULTS, config], capture_output=True, text=True, check=True
            ).stdout
        )
        for config in ("plain", "keep")
    )
    assert plain > 20 * 1000
    assert kept < plain / 10


def test_telling_twice_is_fine() -> None:
    assert keep_memory() == keep_memory()


def test_huge_pages_are_for_children_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TUNABLES, raising=False)
    with huge_pages():
        assert os.environ[TUNABLES] == HUGE
    assert TUNABLES not in os.environ


def test_a_user_who_tunes_glibc_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TUNABLES, "glibc.malloc.check=3")
    with huge_pages():
        assert os.environ[TUNABLES] == "glibc.malloc.check=3"
    assert os.environ[TUNABLES] == "glibc.malloc.check=3"
