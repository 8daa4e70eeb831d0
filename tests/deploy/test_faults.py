"""A federation survives what happens to real ones: see `faults.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.faults import run_all
from fedflat.deploy.transport import missing_packages


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_packages()), reason="needs the extra fedflat[deploy]")
def test_only_right_replies_of_registered_clients_count(tmp_path: Path) -> None:
    rows, right = run_all(tmp_path)
    assert right, rows
