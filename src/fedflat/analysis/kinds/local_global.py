"""Sharpness of client models on their own data and on the data of all clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings, text
from fedflat.analysis.shown_values import short
from fedflat.core.json_schema import NUMBER
from fedflat.registry.specs import register
from fedflat.settings.setting import setting
from fedflat.tasks.headline import Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun

_CLIENT = {"client": (int, str), "local?": NUMBER, "global?": NUMBER, "*": object}


@register("analysis", "local_global")
@dataclass(frozen=True, repr=False)
class LocalGlobalAnalysis(Analysis):
    """sharpness of client models on their own data and on everyone's data"""

    clients: int | None = setting(
        None,
        "number of clients of --local-global",
        low=1,
        default_text="the number of clients per round",
    )

    title = "Local against global"
    position = 90
    subject = "sharpness of client models on local and global data"
    result_schema = {
        "clients": [_CLIENT],
        "round?": NUMBER,
        "local?": NUMBER,
        "global?": NUMBER,
        "*": object,
    }
    partial_schema = [{"client": int, "local": float, "global": float}]

    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return the round, its clients, and the examples."""
        from fedflat.analysis.local_global import next_cohort

        return {
            "round": loaded.state.round,
            "clients": next_cohort(loaded)[: self.clients],
            "examples": scope.examples,
            "seed": scope.seed,
        }

    def compute(self, job: AnalysisJob) -> Result:
        """Train the clients' models as the run would, and compute two eigenvalues of each."""
        from fedflat.analysis.local_global import LocalGlobal, trained_client_models

        rows: list[Result] = job.load_partial() or []
        trained = trained_client_models(job.loaded)
        analysis = LocalGlobal(
            setup=job.loaded.setup,
            round=job.loaded.state.round,
            models={client: trained[client] for client in job.settings["clients"]},
            examples=job.scope.examples,
            seed=job.scope.seed,
        )
        for row in analysis.rows({row["client"] for row in rows}, job.on_progress):
            rows.append(row)
            job.save_partial(rows)
        return analysis.result(rows)

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        local, everyone = text(result.get("local")), text(result.get("global"))
        return f"lambda_1 {local} on the clients' own data, {everyone} on everyone's data"

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        """Return the eigenvalues of each client, and their means."""
        both = ("local", "global")
        clients = [
            {"client": str(one["client"]), **{name: short(one.get(name)) for name in both}}
            for one in result["clients"]
        ]
        means = {name: short(result.get(name)) for name in ("round", *both)}
        return {"clients": clients, **means}
