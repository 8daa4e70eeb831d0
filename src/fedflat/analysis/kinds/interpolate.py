"""Loss on the straight line between two models, and the barrier between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings
from fedflat.analysis.shown_values import short, table
from fedflat.core.json_schema import NUMBER
from fedflat.registry.specs import register
from fedflat.tasks.headline import Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun
    from fedflat.core.flat import Model


@register("analysis", "interpolate")
@dataclass(frozen=True, repr=False)
class InterpolateAnalysis(Analysis):
    """loss on the line between two models, each RUN[:MODEL]

    The result is stored with the run of ``a``. gamma is 0 at the model ``b`` and 1 at ``a``.
    """

    a: str
    b: str

    title = "Between two models"
    short_title = "Barriers"
    position = 70
    subject = "losses between models"
    of_every_run = False
    result_schema = {
        "gamma": [NUMBER],
        "loss?": ([NUMBER], None),
        "error?": ([NUMBER], None),
        "barrier?": NUMBER,
        "*": object,
    }
    partial_schema = [[NUMBER]]
    values = 2
    metavar = ("A", "B")

    @classmethod
    def from_values(cls, values: Any, options: Mapping[str, Any]) -> InterpolateAnalysis:
        """Build it from the texts of both models."""
        return cls(*values)

    def jobs(self, runs: Sequence[LoadedRun]) -> Iterator[tuple[str, Analysis, LoadedRun]]:
        """Iterate over the run of the first model only."""
        return iter([(f"line from {self.b} to {self.a}", self, self._ends()[0][0])])

    def _ends(self) -> list[tuple[LoadedRun, str, Model]]:
        from fedflat.analysis.landscape import refuse_different_shapes
        from fedflat.analysis.loaded_run import one_model

        ends = [one_model(self.a), one_model(self.b)]
        refuse_different_shapes([run for run, _, _ in ends])
        return ends

    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return examples and the texts of both models."""
        (run, name, _), (other, other_name, _) = self._ends()
        ends = {"a": run.model_text(name), "b": other.model_text(other_name)}
        return {**scope.settings(loaded, name), **ends}

    def compute(self, job: AnalysisJob) -> Result:
        """Compute the loss at all points, with the buffers of the first model."""
        from fedflat.analysis.landscape import compute_landscape
        from fedflat.flatness.surface import Line

        (_, _, a), (_, _, b) = self._ends()
        return compute_landscape(job, Line(a.params, b.params), a)

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        return f"barrier {result.get('barrier')}"

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        """Return the values from the model ``b`` to the model ``a`` and beyond both."""
        columns = {"gamma": result["gamma"]}
        columns |= {
            name: result[name] for name in ("loss", "error") if result.get(name) is not None
        }
        ends = {name: str(settings.get(name, name)) for name in ("a", "b")}
        return {**table(columns), **ends, "barrier": short(result.get("barrier"))}
