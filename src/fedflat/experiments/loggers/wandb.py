"""Weights & Biases, offline: ``wandb/`` in the run folder. Send it yourself, if you like, with
``wandb sync``.

A resumed run has the same id, but offline the library keeps each process in a file of its own: the
second file begins where the checkpoint was, and rows that the first had beyond it are in both.
``wandb sync`` sends the files of one id one after the other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import blake2b
from importlib import import_module
from pathlib import Path

from fedflat.experiments.loggers.logger import Logger, settings
from fedflat.experiments.run_folder.record import RunRecord
from fedflat.registry.specs import register


@register("logger", "wandb")
class Wandb(Logger):
    """Weights & Biases, offline, in ``wandb/`` of the run folder."""

    libraries = ("wandb",)

    def begin(self, folder: Path, record: RunRecord, done: int) -> None:
        """Start the library's own process in offline mode."""
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read when the library is imported
        wandb = import_module("wandb")
        config = settings(record.experiment)
        self.run = wandb.init(
            mode="offline",
            dir=str(folder),
            project="fedflat",
            id=_id(record),
            config=config,
            reinit="create_new",
            name=f"{config.get('method', 'run')}, seed {config.get('seed')}",
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                disable_code=True,
                x_disable_stats=True,
                x_disable_machine_info=True,
            ),
        )

    def row(self, round: int, numbers: Mapping[str, float]) -> None:
        """Log with the round as the step."""
        self.run.log(dict(numbers), step=round)

    def end(self, status: str) -> None:
        self.run.finish(exit_code=0 if status == "done" else 1)


def _id(record: RunRecord) -> str:
    """An id that a resumed run keeps and no other run has."""
    return blake2b(
        repr((record.made, settings(record.experiment))).encode(), digest_size=6
    ).hexdigest()
