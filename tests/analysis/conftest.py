"""A run that several tests in this folder use."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedflat


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rounds on digits: examples with a class each."""
    folder = tmp_path_factory.mktemp("runs") / "digits"
    quick = {"rounds": 2, "clients_per_round": 2, "threads": 1}
    fedflat.run("fedavg", on="digits(clients=10)", model="logistic", lr=0.5, out=folder, **quick)
    return folder
