"""Distances between the clients' descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings, text
from fedflat.core.json_schema import NUMBER
from fedflat.errors import SettingError
from fedflat.registry.specs import register
from fedflat.tasks.headline import Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun

MAX_CLIENTS = 200
"""Number of clients, evenly spaced."""


@register("analysis", "descriptions")
@dataclass(frozen=True, repr=False)
class DescriptionsAnalysis(Analysis):
    """distances between the descriptions by which the run groups its clients

    Clients are ordered by their most frequent class. Components are the fewest principal components
    that hold more than 90 % of the variance of what the clients sent.
    """

    title = "Distances between clients' descriptions"
    short_title = "Descriptions"
    position = 115
    subject = "distances between clients' descriptions"
    of_every_run = False
    result_schema = {
        "clients": [int],
        "description": str,
        "tau": str,
        "components": int,
        "components_share": NUMBER,
        "norm_of_cosines": NUMBER,
        "cosines": [[NUMBER]],
        "distances": [[NUMBER]],
        "*": object,
    }

    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return the number of clients. Refuse runs whose clients are not described by vectors."""
        if not loaded.setup.exp.topology.describers:
            raise SettingError(
                f"{loaded.folder}: the clients of {loaded.setup.exp.topology} send no "
                "descriptions. Choose a run with groups by description, such as "
                "fedseq(groups=greedy())."
            )
        return {"clients": min(loaded.setup.fed.population, MAX_CLIENTS)}

    def compute(self, job: AnalysisJob) -> Result:
        """Compare the stored descriptions. No client computes anything."""
        from fedflat.analysis.styles import compute_descriptions

        setup, count = job.loaded.setup, job.settings["clients"]
        fed, topology = setup.fed, setup.exp.topology
        describer = topology.describers[0]
        sent = setup.server.population.descriptions[describer]
        clients = [place * fed.population // count for place in range(count)]
        clients.sort(key=lambda client: int(fed.data(client).counts(fed.classes).argmax()))
        tau = getattr(getattr(topology, "groups", None), "tau", "euclidean")
        found = compute_descriptions(describer, [sent[client] for client in clients], tau)
        return {"clients": clients, **found}

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        """Return the components and the norm of the cosines."""
        return (
            f"{result['description']}: {result['components']} principal components "
            f"({100 * result['components_share']:.0f} %), norm of the cosines "
            f"{text(result['norm_of_cosines'])}"
        )

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        """Return everything but the order of the clients, which is no measurement."""
        from fedflat.analysis.shown_values import shown

        return {name: shown(value) for name, value in result.items() if name != "clients"}

    @classmethod
    def expected(cls, headlines: Sequence[str], attacks: Sequence[str]) -> bool:
        """False: few runs have descriptions."""
        return False
