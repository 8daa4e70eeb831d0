"""A machine on which no data set is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedflat.data.files import paths as places


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Only what a test puts into ``cache`` (or says otherwise) can be found."""
    monkeypatch.setattr(places, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setattr(places, "SYSTEM", tmp_path / "system")
    monkeypatch.delenv("FEDFLAT_DATA", raising=False)
    places.set_data_dir(None)
    yield
    places.set_data_dir(None)
