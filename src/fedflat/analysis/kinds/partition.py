"""The number of examples of each class at each client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings, text
from fedflat.analysis.shown_values import same_length, shorts
from fedflat.core.json_schema import NUMBER
from fedflat.files import Damaged
from fedflat.registry.specs import register
from fedflat.tasks.headline import Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun

MAX_CLIENTS = 200
"""Largest number of clients that are counted."""


@register("analysis", "partition")
@dataclass(frozen=True, repr=False)
class PartitionAnalysis(Analysis):
    """number of examples of each class at each client"""

    title = "The clients' data"
    short_title = "Data"
    position = 100
    subject = "examples of each class at the clients"
    of_every_run = False
    always = True
    result_schema = {"counts": [[NUMBER]], "clients?": int, "*": object}

    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return nothing: the result depends on the run only."""
        return {}

    def compute(self, job: AnalysisJob) -> Result:
        """Count."""
        fed = job.loaded.setup.fed
        shown = min(fed.population, MAX_CLIENTS)
        counts = [fed.data(client).counts(fed.classes).tolist() for client in range(shown)]
        return {"counts": counts, "clients": fed.population, "shown": shown}

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        return f"{text(result.get('clients'), ',')} clients"

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        counts = [shorts(row) for row in result["counts"]]
        if not counts or not counts[0]:
            raise Damaged("it has no clients")
        same_length(*counts)
        clients = result.get("clients", len(counts))
        return {"counts": counts, "clients": clients, "shown": len(counts)}
