"""Styles of the clients' images, and their clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings, text
from fedflat.analysis.shown_values import png_text, short
from fedflat.core.json_schema import NUMBER
from fedflat.errors import SettingError
from fedflat.files import Damaged
from fedflat.registry.specs import register
from fedflat.tasks.headline import MIOU, Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun

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
