"""Loss surfaces of client models on their own data and on the data of all clients.

Caldarola et al., Beyond Local Sharpness: Communication-Efficient Global Sharpness-aware
Minimization for Federated Learning, CVPR 2025, Figures 2, 5, 10 and 11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings
from fedflat.analysis.shown_values import grid
from fedflat.core.json_schema import NUMBER
from fedflat.errors import number
from fedflat.registry.specs import register
from fedflat.tasks.headline import Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun

_SURFACE = {
    "client": int,
    "class": int,
    "x": [NUMBER],
    "y": [NUMBER],
    "own": [[NUMBER]],
    "everyone": [[NUMBER]],
    "*": object,
}


@register("analysis", "client_surfaces")
@dataclass(frozen=True, repr=False)
class ClientSurfacesAnalysis(Analysis):
    """loss around client models on their own data and on everyone's data

    The models are those of the first ``clients`` of the next round after local training. All models
    share their directions. A surface has ``points`` points on a side.
    """

    clients: int = 3
    points: int = 15
    span: float = 1.0

    title = "Loss surfaces of clients' models"
    short_title = "Clients' surfaces"
    position = 95
    subject = "loss surfaces of clients' models"
    of_every_run = False
    result_schema = {"round": int, "surfaces": [_SURFACE], "*": object}
    partial_schema = [_SURFACE]

    def __post_init__(self) -> None:
        super().__post_init__()
        number("client_surfaces", "clients", self.clients, low=1, whole=True)
        number("client_surfaces", "points", self.points, low=3, whole=True)
        number("client_surfaces", "span", self.span, low=0, open_low=True)

    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return the round, its clients, the examples, points and span."""
        from fedflat.analysis.local_global import next_cohort

        return {
            "round": loaded.state.round,
            "clients": next_cohort(loaded)[: self.clients],
            "examples": scope.examples,
            "seed": scope.seed,
            "points": self.points,
            "span": self.span,
        }

    def compute(self, job: AnalysisJob) -> Result:
        """Train the clients' models as the run would, and compute two surfaces of each."""
        from fedflat.analysis.local_global import LocalGlobal, trained_client_models
        from fedflat.flatness.points import measure
        from fedflat.flatness.surface import Surface

        done: list[Result] = job.load_partial() or []
        setup, seed = job.loaded.setup, job.scope.seed
        learner, fed = setup.job.learner, setup.fed
        models = trained_client_models(job.loaded)
        union = LocalGlobal(
            setup=setup,
            round=job.settings["round"],
            models=models,
            examples=job.scope.examples,
            seed=seed,
        ).used
        for client in job.settings["clients"][len(done) :]:
            model, own = models[client], fed.data(client)
            land = Surface(
                model.params, learner.flat.layout, points=self.points, span=self.span, seed=seed
            )
            local, everyone = (
                measure(learner, model.buffers, land, data, on_progress=job.on_progress)
                for data in (own, union)
            )
            axes = {name: local[name] for name in ("x", "y", "length")}
            top = int(own.counts(fed.classes).argmax())
            losses = {"own": local["loss"], "everyone": everyone["loss"]}
            done.append({"client": client, "class": top, **axes, **losses})
            job.save_partial(done)
        return {"round": job.settings["round"], "surfaces": done}

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        clients = ", ".join(str(one["client"]) for one in result["surfaces"])
        return f"surfaces of clients {clients}"

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        """Return the surfaces, and each of them as a table that is drawn as a heat map."""
        surfaces, tables = [], {}
        for one in result["surfaces"]:
            own, everyone = (grid({**one, "loss": one[name]}) for name in ("own", "everyone"))
            client = f"client_{one['client']}"
            tables[f"{client}_on_its_own_data"] = own["loss"]
            tables[f"{client}_on_everyone's_data"] = everyone["loss"]
            losses = {"own": own["loss"], "everyone": everyone["loss"]}
            named = {"client": one["client"], "class": one["class"]}
            surfaces.append({**named, "x": own["x"], "y": own["y"], **losses})
        return {"surfaces": surfaces, **tables}

    @classmethod
    def expected(cls, headlines: Sequence[str], attacks: Sequence[str]) -> bool:
        """False: a report does without them."""
        return False
