"""The public names are what ``fedflat/__init__.py`` lists."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import fedflat
from fedflat.spelling import registered


def test_sorted_and_listed_once() -> None:
    first, *names = fedflat.__all__
    assert first == "__version__"
    assert names == sorted(set(names))
    assert dir(fedflat) == sorted(fedflat.__all__)


@pytest.mark.parametrize("name", fedflat.__all__)
def test_every_name_is_there(name: str) -> None:
    value = getattr(fedflat, name)
    assert value is not None
    assert not inspect.ismodule(value)
    if callable(value):
        assert inspect.getdoc(value), f"{name} says nothing about itself"


def test_what_can_be_said_can_be_imported() -> None:
    """Methods, data sets, partitions, models and schedules are the same in Python and in text."""
    for kind in ("method", "data set", "partition", "model", "schedule"):
        for entry in registered(kind):
            if entry.make.__module__.startswith("fedflat."):
                assert getattr(fedflat, entry.name) is entry.make


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'fedflat' has no attribute 'fedavgg'"):
        fedflat.fedavgg  # noqa: B018


def test_run_is_the_function_whatever_was_imported_before() -> None:
    """The subpackage has the same name, and Python would put it in the function's place."""
    code = """
import sys
for before in (
    "import fedflat.run.results", "from fedflat.run import train", "import fedflat; fedflat.compare",
    "from fedflat import Experiment", "import fedflat; fedflat.run; import fedflat.run.store",
):
    for name in [name for name in sys.modules if name.partition(".")[0] == "fedflat"]:
        del sys.modules[name]
    exec(before, {})
    import fedflat
    from fedflat import run
    assert run is fedflat.run and callable(run), (before, run)
    assert run.__module__ == "fedflat.run.api"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
