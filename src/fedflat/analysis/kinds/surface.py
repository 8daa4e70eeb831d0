"""The filter-normalised loss surface around one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings
from fedflat.analysis.shown_values import grid, short
from fedflat.core.json_schema import NUMBER
from fedflat.registry.specs import register
from fedflat.settings.setting import setting
from fedflat.tasks.headline import Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun

_TABLE = ([[NUMBER]], None)
GRID = {"x": [NUMBER], "y": [NUMBER], "loss?": _TABLE, "error?": _TABLE, "*": object}


@register("analysis", "surface")
@dataclass(frozen=True, repr=False)
class SurfaceAnalysis(Analysis):
    """loss around the model, along random directions that all runs share"""

    points: int = setting(25, "points per side of a surface")
    span: float = setting(1.0, "distance from the model to the edge of a surface", metavar="S")

    title = "Loss surfaces"
    position = 50
    subject = "loss surfaces"
    result_schema = {**GRID, "center?": {"*": NUMBER}, "length?": NUMBER}
    partial_schema = [[NUMBER]]

    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return model, examples, points and span."""
        of = scope.settings(loaded, loaded.model(scope.model)[0])
        return {**of, "points": self.points, "span": self.span}

    def compute(self, job: AnalysisJob) -> Result:
        """Compute the loss at all points."""
        from fedflat.analysis.landscape import compute_landscape
        from fedflat.flatness.surface import Surface

        _, model = job.loaded.model(job.scope.model)
        layout, seed = job.loaded.setup.job.learner.flat.layout, job.scope.seed
        surface = Surface(model.params, layout, points=self.points, span=self.span, seed=seed)
        return compute_landscape(job, surface, model)

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        return f"{len(result['x'])} x {len(result['y'])} points"

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        """Return the grid, the values at the model and the length of the directions."""
        center = {name: short(value) for name, value in result.get("center", {}).items()}
        return {**grid(result), "center": center, "length": short(result.get("length"))}
