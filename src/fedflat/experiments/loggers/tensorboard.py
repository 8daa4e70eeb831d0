"""TensorBoard: event files in ``tensorboard/`` of the run folder. View them with ``tensorboard
--logdir runs``.

A resumed run goes on in the same folder; rows after its checkpoint are purged, so TensorBoard shows
each once.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from fedflat.experiments.loggers.logger import Logger, settings
from fedflat.experiments.run_folder.record import RunRecord
from fedflat.registry.specs import register


@register("logger", "tensorboard")
class TensorBoard(Logger):
    """TensorBoard event files in ``tensorboard/`` of the run folder."""

    libraries = ("tensorboard",)

    def begin(self, folder: Path, record: RunRecord, done: int) -> None:
        """Open a new event file that voids the rows which will come again."""
        library = import_module("torch.utils.tensorboard")
        self.writer = library.SummaryWriter(str(folder / "tensorboard"), purge_step=done + 1)
        if not done:
            self.writer.add_text(
                "settings",
                "\n".join(f"- {k}: `{v}`" for k, v in settings(record.experiment).items()),
                0,
            )
        self.writer.flush()

    def row(self, round: int, numbers: Mapping[str, float]) -> None:
        """Write and flush: a run that is killed has lost nothing."""
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, round)
        self.writer.flush()

    def end(self, status: str) -> None:
        self.writer.close()
