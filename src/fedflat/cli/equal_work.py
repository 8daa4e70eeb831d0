"""``fedflat reproduce flat/equal-gradients``: list the grid, run cells, check them, print the
table."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

from fedflat.errors import SettingError
from fedflat.papers.equal_work.grid import COLUMNS, NAME, cells, listing, matching_cells

OPTIONS = ("add_average", "flatness", "target", "seeds", "rounds", "share", "stretch", "examples")
"""Options of `reproduce` that would make another table of it."""


def equal_work(args: Namespace) -> int:
    """Run what the options ask for."""
    given = [f"--{name.replace('_', '-')}" for name in OPTIONS if getattr(args, name)]
    if given:
        raise SettingError(
            f"reproduce: {NAME} has fixed seeds, rounds and measures. Leave out {', '.join(given)}."
        )
    if args.list:
        print(listing(matching_cells(args.cells) if args.cells else cells()))
        return 0
    folder = Path(args.out or "runs/reproduce-flat-equal-gradients")
    if args.table:
        from fedflat.papers.equal_work.page import page

        print(page(folder), end="")
        return 0
    return _run(args, folder)


def _run(args: Namespace, folder: Path) -> int:
    if not args.cells:
        raise SettingError(
            f"reproduce: name cells of {NAME}, such as --cells '{next(iter(COLUMNS))}-*', or "
            "--cells '*' for all; --list lists them."
        )
    selected = matching_cells(args.cells)
    from fedflat.papers.equal_work.cell_run import run_cell
    from fedflat.papers.reproduce.plan import alone

    if args.data_dir:
        os.environ["FEDFLAT_DATA"] = str(Path(args.data_dir).resolve())
    os.nice(args.nice)

    def print_line(text: str) -> None:
        if not args.quiet:
            print(text, file=sys.stderr, flush=True)

    try:
        for cell in selected:
            with alone(folder / cell.name):
                path = run_cell(cell, folder, print_line, args.checkpoint_every)
            print(path, flush=True)
    except KeyboardInterrupt:
        print("\nCheckpoints were written. The same command continues.", file=sys.stderr)
        raise
    return 0
