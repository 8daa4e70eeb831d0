"""The clients' classes, descriptions and styles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings, text
from fedflat.analysis.shown_values import png_text, same_length, short, shorts
from fedflat.core.json_schema import NUMBER
from fedflat.errors import SettingError
from fedflat.files import Damaged
from fedflat.registry.specs import register
from fedflat.tasks.headline import MIOU, Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun


MAX_CLIENTS = 200
"""Most clients of an analysis."""


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


_STYLE = {
    "client": int,
    "x": NUMBER,
    "y": NUMBER,
    "cluster": int,
    "domain?": str,
    "image?": (str, None),
    "*": object,
}


@register("analysis", "styles")
@dataclass(frozen=True, repr=False)
class StylesAnalysis(Analysis):
    """styles of the clients' images, and their clusters

    Clusters are those of the run. Without any, the silhouette chooses their number.
    """

    title = "The clients' styles"
    short_title = "Styles"
    position = 120
    subject = "styles of the clients"
    of_every_run = False
    result_schema = {
        "clients": [_STYLE],
        "shares": [NUMBER],
        "silhouette?": NUMBER,
        "groups?": (str, None),
        "of?": int,
        "aspect?": NUMBER,
        "*": object,
    }

    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return the seed and how the run made its clusters. Refuse inputs without styles."""
        from fedflat.analysis.styles import clusters_of_run

        shape = loaded.setup.fed.shape
        if len(shape) != 3 or shape[0] not in (1, 3):
            raise SettingError(
                f"{loaded.folder}: only images have styles, found inputs of "
                f"{'x'.join(map(str, shape))}. Leave --styles out."
            )
        own = clusters_of_run(loaded)
        return {"seed": scope.seed, "groups": own.by if own else None}

    def compute(self, job: AnalysisJob) -> Result:
        """Compute, cluster and project the styles."""
        from fedflat.analysis.styles import compute_styles

        return compute_styles(job)

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        """Return the number of clients and clusters, and the silhouette."""
        clusters = len({one["cluster"] for one in result["clients"]})
        origin = "chosen by the silhouette, since the run has no groups"
        if result.get("groups"):
            origin = f"the run's own, groups={result['groups']}"
        silhouette = text(result.get("silhouette"), ".2f")
        count = len(result["clients"])
        return f"{count} clients in {clusters} clusters ({origin}), silhouette {silhouette}"

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        """Return the place, the cluster and the picture of each client."""
        clients = [
            {
                "client": one["client"],
                "x": short(one["x"]),
                "y": short(one["y"]),
                "cluster": one["cluster"],
                "domain": str(one.get("domain", "")),
                "image": png_text(one["image"]) if one.get("image") else None,
            }
            for one in result["clients"]
        ]
        if not clients:
            raise Damaged("it has no clients")
        return {
            "clients": clients,
            "shares": [short(share, 3) for share in result["shares"][:2]],
            "silhouette": short(result.get("silhouette"), 3),
            "groups": result.get("groups"),
            "of": result.get("of", len(clients)),
            "aspect": short(result.get("aspect")) or 1.0,
        }

    @classmethod
    def expected(cls, headlines: Sequence[str], attacks: Sequence[str]) -> bool:
        return MIOU.name in headlines
