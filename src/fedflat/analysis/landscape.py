"""Losses at the points of a landscape, saved now and then so that an interruption loses little."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fedflat.analysis.analysis import AnalysisJob, Result
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.core.flat import Model
from fedflat.errors import SettingError
from fedflat.flatness.points import Landscape, losses

SAVE_INTERVAL = 5.0
"""Seconds between two saves of a partial result."""


def compute_landscape(job: AnalysisJob, land: Landscape, model: Model) -> Result:
    """Return loss and error at all points, with the buffers of `model`."""
    values: list[list[float | None]] = job.load_partial() or []
    saved = time.monotonic()
    try:
        for value in losses(
            job.loaded.setup.job.learner,
            model.buffers,
            land,
            job.scope.data(job.loaded),
            start=len(values),
            on_progress=job.on_progress,
        ):
            values.append(list(value))
            if time.monotonic() - saved > SAVE_INTERVAL:
                job.save_partial(values)
                saved = time.monotonic()
    except KeyboardInterrupt:
        job.save_partial(values)
        raise
    return land.result(values)


def refuse_different_shapes(runs: Sequence[LoadedRun]) -> None:
    """Raise `SettingError` for models whose parameters have different shapes."""
    layouts = [run.setup.job.learner.flat.layout for run in runs]
    if len({layout.shapes for layout in layouts}) > 1:
        texts = [
            f"{run.folder} ({run.experiment.model}, {layout.dim:,} parameters)"
            for run, layout in zip(runs, layouts, strict=True)
        ]
        raise SettingError(
            f"the models have different shapes: {', '.join(texts)}. "
            "Choose runs with the same model and data."
        )
