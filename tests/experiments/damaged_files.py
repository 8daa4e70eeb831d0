"""Real run folders to damage, and objects that can stand in place of a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from experiments.small import stop_at
from fedflat.cli import main
from fedflat.experiments.api import compare, run
from fedflat.experiments.study import Reporter

SETTINGS: dict[str, Any] = {
    "on": "digits(iid(), clients=6)",
    "rounds": 4,
    "clients_per_round": 2,
    "model": "logistic",
    "threads": 1,
    "record": "norms",
    "eval_last": 4,
    "lr": 0.01,
    "quiet": True,
}
METHOD = "feddyn(alpha=0.1) + ema(gamma=0.5)"


def make_runs(root: Path) -> None:
    """A run that has ended, one that was stopped, each for two seeds, and a study of two
    methods."""
    for seed in (0, 1):
        run(METHOD, out=root / f"done-{seed}", seed=seed, **SETTINGS)
        stop = Reporter(announce=lambda exp, place, total: stop_at(3))
        try:
            run(
                METHOD,
                out=root / f"cut-{seed}",
                seed=seed,
                reporter=stop,
                checkpoint_every=0,
                **SETTINGS,
            )
        except KeyboardInterrupt:
            continue
        raise AssertionError("the run was not stopped")
    compare(["fedavg", METHOD], out=root / "study", **{**SETTINGS, "rounds": 1})
    with redirect_stdout(None):
        assert main(["analyse", str(root / "done-0"), "--surface", "--points", "3", "--quiet"]) == 0


def flip(path: Path, place: int) -> None:
    """Change a bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 6 * 10**9)


ODD: dict[str, Callable[[Path], Any]] = {
    "a folder": Path.mkdir,
    "a named pipe": lambda path: os.mkfifo(path),
    "a link": lambda path: path.symlink_to("elsewhere"),
    "far too many": _huge,
    "nested too deeply": lambda path: path.write_text("[" * 100_000),
    "utf-8": lambda path: path.write_bytes(b'{"fedflat": "\xff"}'),
    "must be an object": lambda path: path.write_text("[]"),
    "fedflat must be a text": lambda path: path.write_text('{"fedflat": 3}'),
}
"""What may stand where a JSON file was, by a word of what is said about it."""
