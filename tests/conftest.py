"""Settings for all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from fedflat.registry import plugins
from warm_python import warm_starts

# Some virtual machines claim matrix tiles (AMX) that they cannot run: tests of bfloat16 would end
# their process there.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# The speed of the machine decides nothing. `make test` draws the same examples every time; `make
# test-hostile` draws new ones from its seed, by --hypothesis-profile=fresh --hypothesis-seed=N.
_ANY_SPEED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fixed", derandomize=True, database=None, **_ANY_SPEED)
settings.register_profile("fresh", derandomize=False, database=None, print_blob=True, **_ANY_SPEED)
settings.load_profile("fixed")

# What a user may have set and a test must not see.
for _name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "FEDFLAT_DATA"):
    os.environ.pop(_name, None)
os.environ["TERM"] = "xterm-256color"
if sys.__stdin__ is None:  # standard input is closed; pytest expects one
    sys.__stdin__ = open(os.devnull)  # noqa: SIM115


def pytest_collection_finish() -> None:
    """Leave out what was collected in every later garbage collection: it lives until the end. Look
    for garbage less often: most tests end before there is much of it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def default_signals() -> Iterator[None]:
    """Processes that tests start react to signals, also where this one ignores them: under nohup or
    in the background.

    A child inherits an ignored signal. A handler becomes the default in it, and keeps ignoring the
    signal here.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(
            number, signal.default_int_handler if number == signal.SIGINT else lambda *_: None
        )
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session", autouse=True)
def files_need_not_survive_a_power_cut() -> Iterator[None]:
    """Runs in this process do not wait for the disk. Processes that tests start do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # which also fails if the file is closed
        yield


@pytest.fixture
def warm_processes() -> Iterator[None]:
    """Processes of Python that the test starts are forked from one that has imported PyTorch."""
    with warm_starts():
        yield


@pytest.fixture(autouse=True)
def named_plugins_of_one_test() -> Iterator[None]:
    """Plugins that a test names are not loaded by the workers of the next one."""
    before = dict(plugins._NAMED)
    yield
    if before != plugins._NAMED:
        plugins._NAMED.clear()
        plugins._NAMED.update(before)
