"""Loss on the plane through three models, of runs or of clients after local training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings
from fedflat.analysis.kinds.surface import GRID
from fedflat.analysis.shown_values import grid, short
from fedflat.core.json_schema import NUMBER
from fedflat.errors import SettingError
from fedflat.registry.specs import register
from fedflat.tasks.headline import Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun
    from fedflat.core.flat import Model

CLIENTS = ("clients",)
_POINT = {"name": str, "x?": NUMBER, "y?": NUMBER, "loss?": NUMBER, "error?": NUMBER, "*": object}


@register("analysis", "plane")
@dataclass(frozen=True, repr=False)
class PlaneAnalysis(Analysis):
    """loss on the plane through three models (default: the given runs); clients: through three
    clients' models

    ``models`` are three texts RUN or RUN:MODEL, or ``["clients"]``: three clients of the next round
    after local training. The result is stored with the first run.
    """

    models: tuple[str, ...] = ()

    title = "Planes through models"
    short_title = "Planes"
    position = 60
    subject = "planes through models"
    of_every_run = False
    result_schema = {**GRID, "points?": [_POINT]}
    partial_schema = [[NUMBER]]
    values = "*"
    metavar = "RUN[:MODEL]"

    @classmethod
    def from_values(cls, values: Any, options: Mapping[str, Any]) -> PlaneAnalysis:
        """Build it from the texts of the models."""
        return cls(tuple(values))

    def jobs(self, runs: Sequence[LoadedRun]) -> Iterator[tuple[str, Analysis, LoadedRun]]:
        """Iterate over all runs for planes of clients, else over the run of the first model."""
        if self.models == CLIENTS:
            return ((f"{run.folder}: plane of clients", self, run) for run in runs)
        texts = self.models or tuple(str(run.folder) for run in runs)
        plane = PlaneAnalysis(texts)
        return iter([(f"plane of {', '.join(texts)}", plane, plane._three()[0][0])])

    def _three(self) -> list[tuple[LoadedRun, str, Model]]:
        """Return the three models. Refuse another number, or different shapes."""
        from fedflat.analysis.landscape import refuse_different_shapes
        from fedflat.analysis.loaded_run import one_model

        if len(self.models) != 3:
            raise SettingError(
                f"a plane goes through three models, found {len(self.models)}. "
                "Give three, each as RUN or RUN:MODEL."
            )
        models = [one_model(text) for text in self.models]
        refuse_different_shapes([run for run, _, _ in models])
        return models

    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return model, examples and the texts of the three models."""
        if self.models == CLIENTS:
            of, models = "server", [f"client {client}" for client in three_clients(loaded)]
        else:
            three = self._three()
            of, models = three[0][1], [run.model_text(name) for run, name, _ in three]
        return {**scope.settings(loaded, of), "models": models}

    def compute(self, job: AnalysisJob) -> Result:
        """Compute the loss at all points, with the buffers of the first model or the server's."""
        from fedflat.analysis.landscape import compute_landscape
        from fedflat.flatness.surface import Plane

        if self.models == CLIENTS:
            from fedflat.analysis.local_global import trained_client_models

            trained = trained_client_models(job.loaded)
            params = {
                f"client {client}": trained[client].params for client in three_clients(job.loaded)
            }
            return compute_landscape(job, Plane(params), job.loaded.state.model)
        three = self._three()
        names = [f"{run.name}: {name}" for run, name, _ in three]
        if len(set(names)) < 3:
            names = [f"{run.folder}: {name}" for run, name, _ in three]
        params = {name: model.params for name, (_, _, model) in zip(names, three, strict=True)}
        return compute_landscape(job, Plane(params), three[0][2])

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        return f"{len(result['x'])} x {len(result['y'])} points"

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        """Return the grid, the places of the models, and their texts."""
        marks = [
            {
                "name": str(point["name"]),
                **{key: short(point.get(key)) for key in ("x", "y", "loss", "error")},
            }
            for point in result.get("points", [])
        ]
        models = settings.get("models")
        texts = list(map(str, models)) if isinstance(models, list) else []
        return {**grid(result), "marks": marks, "models": texts}


def three_clients(loaded: LoadedRun) -> list[int]:
    """Return three clients of the next round. Refuse runs with fewer per round."""
    from fedflat.analysis.local_global import next_cohort

    cohort = next_cohort(loaded)[:3]
    if len(cohort) < 3:
        raise SettingError(
            f"{loaded.folder}: a plane needs three clients per round, and this run has "
            f"{len(cohort)}. Choose another run."
        )
    return cohort
