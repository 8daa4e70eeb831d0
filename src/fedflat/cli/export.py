"""``fedflat export``."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from fedflat.experiments.run_folder.load import export


def carry_out(args: Namespace) -> int:
    """Write a run's model to a file."""
    export(Path(args.folder), Path(args.to), model=args.model)
    print(args.to)
    return 0
