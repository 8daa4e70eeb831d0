"""``fedflat export``."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from fedflat.running.loading import export


def carry_out(asked: Namespace) -> int:
    """Write a run's model to a file."""
    export(Path(asked.folder), Path(asked.to), model=asked.model)
    print(asked.to)
    return 0
