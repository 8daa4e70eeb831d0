"""MLflow: a database ``mlruns/mlflow.db`` in the run folder.

Look with ``mlflow server --backend-store-uri sqlite:///RUN/mlruns/mlflow.db``. A resumed run goes
on in the same MLflow run, and a number that is there already for a round is not written again.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from fedflat.experiments.loggers.logger import Logger, settings
from fedflat.experiments.run_folder.record import RunRecord
from fedflat.registry.specs import register

STATUS = {"done": "FINISHED", "diverged": "FAILED", "stopped": "KILLED"}


@register("logger", "mlflow")
class MLflow(Logger):
    """MLflow database in ``mlruns/`` of the run folder: a run of the experiment "fedflat"."""

    libraries, folder = ("mlflow", "sqlalchemy", "alembic"), "mlruns"

    def begin(self, folder: Path, record: RunRecord, done: int) -> None:
        """Find the run in the database, or create it."""
        self.place = folder / self.folder
        self.last: dict[str, int] = {}  # the last round of each number that is in the database
        os.environ.setdefault(
            "MLFLOW_DISABLE_TELEMETRY", "true"
        )  # read when the library is imported
        library = import_module("mlflow")
        self.metric = import_module("mlflow.entities").Metric
        for name in ("mlflow", "mlflow.store.db.utils", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self.place.mkdir(exist_ok=True)
        self.client = library.MlflowClient(
            tracking_uri=f"sqlite:///{self.place.resolve() / 'mlflow.db'}"
        )
        known = self.client.get_experiment_by_name("fedflat")
        runs = self.client.search_runs([known.experiment_id]) if known else []
        if runs:
            self._go_on(runs[0])
        else:
            self._make(known, settings(record.experiment))

    def _make(self, known: Any, config: dict[str, str]) -> None:
        place = (self.place / "artifacts").resolve().as_uri()
        place_of_run = (
            known.experiment_id if known else self.client.create_experiment("fedflat", place)
        )
        name = f"{config.get('method', 'run')}, seed {config.get('seed')}"
        self.id = self.client.create_run(place_of_run, run_name=name).info.run_id
        for key, value in config.items():
            self.client.log_param(self.id, key, value)

    def _go_on(self, run: Any) -> None:
        self.id = run.info.run_id
        self.client.update_run(self.id, status="RUNNING")
        for name in run.data.metrics:
            self.last[name] = max(
                point.step for point in self.client.get_metric_history(self.id, name)
            )

    def row(self, round: int, numbers: Mapping[str, float]) -> None:
        """Write what is new, all of a round at once."""
        new = {name: value for name, value in numbers.items() if round > self.last.get(name, -1)}
        now = int(1000 * time.time())
        self.client.log_batch(
            self.id, metrics=[self.metric(name, value, now, round) for name, value in new.items()]
        )
        self.last |= dict.fromkeys(new, round)

    def end(self, status: str) -> None:
        self.client.set_terminated(self.id, STATUS[status])
