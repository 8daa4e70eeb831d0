"""Maps of queries, right or wrong, and queries beside the images they retrieve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings
from fedflat.analysis.shown_values import png_text, short
from fedflat.core.json_schema import NUMBER
from fedflat.errors import SettingError
from fedflat.registry.specs import register
from fedflat.settings.setting import setting
from fedflat.tasks.headline import Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun

_POINT = {"area": str, "x": NUMBER, "y": NUMBER, "*": object}
_QUERY = _POINT | {"right": bool, "possible": bool, "metres": NUMBER}


@register("analysis", "places")
@dataclass(frozen=True, repr=False)
class PlacesAnalysis(Analysis):
    """map of the queries of each test set, right or wrong, and N of either (default 3) beside the
    image they retrieve

    Each city or town has a map of its own, with the database and the clients' images.
    """

    each: int = setting(3, "right and wrong queries of each test set", low=1, high=12)

    title = "Places"
    position = 25
    subject = "maps of places"
    result_schema = {
        "sets": {
            "*": {
                "queries": [_QUERY],
                "database": [_POINT],
                "examples": [_QUERY | {"query": str, "found": str}],
                "recall": [NUMBER],
                "without_positive": int,
                "*": object,
            }
        },
        "clients": [{"client": int, "images": int, "points": [[object]], "*": object}],
        "*": object,
    }
    values = "?"
    metavar = "N"

    @classmethod
    def from_values(cls, values: Any, options: Mapping[str, Any]) -> PlacesAnalysis:
        """Build it from the number of examples."""
        return cls() if values is True else cls(values)

    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return model and number. Refuse tasks without places, and numbered places."""
        from fedflat.tasks.retrieval import Retrieval

        task = loaded.setup.exp.task
        if not isinstance(task, Retrieval):
            raise SettingError(f"{loaded.folder}: a map needs the task retrieval(), found {task}.")
        if not loaded.setup.fed.test.targets.is_floating_point():
            raise SettingError(
                f"{loaded.folder}: the places of these data are numbers without a position, so "
                "there is no map."
            )
        return {"model": loaded.model(scope.model)[0], "each": self.each} | loaded.round_setting

    def compute(self, job: AnalysisJob) -> Result:
        """Search every query."""
        from fedflat.analysis.places import compute_places

        return compute_places(job, self.each)

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        """Return recall@1 of each test set."""
        return ", ".join(
            f"{name} {headline.with_unit(one['recall'][0])}"
            for name, one in result["sets"].items()
            if one["recall"][0] is not None
        )

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        """Return maps and examples of each test set."""
        sets = {
            str(name): {
                "queries": [_shown(one) for one in found["queries"]],
                "database": [
                    [one["area"], short(one["x"], 9), short(one["y"], 9)]
                    for one in found["database"]
                ],
                "examples": [
                    _shown(one) | {side: png_text(one[side]) for side in ("query", "found")}
                    for one in found["examples"]
                ],
                "recall": [short(value) for value in found["recall"]],
                "without_positive": found["without_positive"],
            }
            for name, found in result["sets"].items()
        }
        clients = [
            {
                "client": one["client"],
                "images": one["images"],
                "points": [[str(p[0]), short(p[1], 9), short(p[2], 9)] for p in one["points"]],
            }
            for one in result["clients"]
        ]
        return {"sets": sets, "clients": clients}

    @classmethod
    def expected(cls, headlines: Sequence[str], attacks: Sequence[str]) -> bool:
        return "recall@1" in headlines


def _shown(one: Result) -> Result:
    return {
        "area": one["area"],
        "x": short(one["x"], 9),
        "y": short(one["y"], 9),
        "right": one["right"],
        "possible": one["possible"],
        "metres": short(one["metres"]),
    }
