"""Predictions on images: examples of every test set, confusion matrices, places, styles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings
from fedflat.analysis.shown_values import png_text, same_length, short
from fedflat.core.json_schema import NUMBER
from fedflat.errors import SettingError
from fedflat.files import Damaged
from fedflat.registry.specs import register
from fedflat.settings.setting import setting
from fedflat.tasks.headline import ACCURACY, MIOU, Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun


MAX_EXAMPLES = 12
"""Largest number of examples of a test set."""
_PICTURE = {
    "place": int,
    "image": str,
    "truth": str,
    "mask": str,
    "score?": NUMBER,
    "domain?": str,
    "*": object,
}


@register("analysis", "pictures")
@dataclass(frozen=True, repr=False)
class PicturesAnalysis(Analysis):
    """image, label and predicted mask of N examples of each test set (default 3), or one of each
    domain

    ``each`` examples are evenly spaced in each set. Of a set with domains there is one example of
    each domain, at most 12.
    """

    each: int = setting(3, "number of examples of each test set", low=1, high=MAX_EXAMPLES)

    title = "Pictures"
    position = 20
    subject = "pictures of masks"
    result_schema = {
        "names": [str],
        "colours": [[int]],
        "sets": {"*": [_PICTURE]},
        "*": object,
    }
    values = "?"
    metavar = "N"

    @classmethod
    def from_values(cls, values: Any, options: Mapping[str, Any]) -> PicturesAnalysis:
        """Build it from the number of examples."""
        return cls() if values is True else cls(values)

    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return model and number. Refuse tasks without masks."""
        task = loaded.setup.exp.task
        if not task.segments:
            raise SettingError(
                f"{loaded.folder}: pictures need a task that predicts masks, found {task}. "
                "Use --confusion."
            )
        return {"model": loaded.model(scope.model)[0], "each": self.each} | loaded.round_setting

    def compute(self, job: AnalysisJob) -> Result:
        """Predict the masks."""
        from fedflat.analysis.pictures import compute_pictures

        return compute_pictures(job, self.each, MAX_EXAMPLES)

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        """Return the number of classes, and the test sets."""
        return f"{len(result['names'])} classes on {', '.join(result['sets'])}"

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        """Return the examples of each test set."""
        sets = {
            str(where): [
                {
                    "place": one["place"],
                    "score": short(one.get("score")),
                    "domain": str(one.get("domain", "")),
                }
                | {name: png_text(one[name]) for name in ("image", "truth", "mask")}
                for one in some
            ]
            for where, some in result["sets"].items()
        }
        if not sets or any(
            len(colour) != 3 or not all(0 <= part < 256 for part in colour)
            for colour in result["colours"]
        ):
            raise Damaged("it has no pictures, or colours that are none")
        return {"names": result["names"], "colours": result["colours"], "sets": sets}

    @classmethod
    def expected(cls, headlines: Sequence[str], attacks: Sequence[str]) -> bool:
        return MIOU.name in headlines


MAX_CLASSES = 256
"""Largest number of classes of a confusion matrix."""


@register("analysis", "confusion")
@dataclass(frozen=True, repr=False)
class ConfusionAnalysis(Analysis):
    """confusion matrix of each test set

    It counts how many examples, or pixels, of each class are predicted as each class.
    """

    title = "Confusion of classes"
    short_title = "Confusion"
    position = 30
    subject = "confusion matrices"
    result_schema = {"names": [str], "sets": {"*": [[int]]}, "*": object}

    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return model and examples. Refuse tasks without classes, or with too many."""
        task, width = loaded.setup.exp.task, loaded.setup.job.learner.outputs
        if not (task.classifies or task.segments):
            raise SettingError(
                f"{loaded.folder}: a confusion matrix needs a task that predicts classes, "
                f"found {task}. Leave --confusion out."
            )
        if width > MAX_CLASSES:
            raise SettingError(
                f"{loaded.folder}: the model has {width} classes, and a confusion matrix can show "
                f"at most {MAX_CLASSES}. Leave --confusion out."
            )
        return scope.settings(loaded, loaded.model(scope.model)[0])

    def compute(self, job: AnalysisJob) -> Result:
        """Count the predictions."""
        from fedflat.analysis.pictures import compute_confusion

        return compute_confusion(job)

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        """Return the number of classes, and the test sets."""
        return f"{len(result['names'])} classes on {', '.join(result['sets'])}"

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        for matrix in result["sets"].values():
            same_length(result["names"], matrix, *matrix)
        if not result["sets"]:
            raise Damaged("it has no test set")
        return {"names": result["names"], "sets": result["sets"]}

    @classmethod
    def expected(cls, headlines: Sequence[str], attacks: Sequence[str]) -> bool:
        """True for classification and segmentation."""
        return ACCURACY.name in headlines or MIOU.name in headlines


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


@register("analysis", "styled")
@dataclass(frozen=True, repr=False)
class StyledAnalysis(Analysis):
    """training images of N clients (default 6), and the same images in the styles of others

    For runs with ``cfsi()`` or ``lab()``. Clients are evenly spaced; each shows one image.
    """

    each: int = setting(6, "number of clients", low=1, high=12)

    title = "Training images in the styles of others"
    short_title = "Styled images"
    position = 121
    subject = "styled training images"
    of_every_run = False
    result_schema = {
        "piece": str,
        "pairs": [{"client": int, "domain": str, "before": str, "after": str, "*": object}],
        "*": object,
    }
    values = "?"
    metavar = "N"

    @classmethod
    def from_values(cls, values: Any, options: Mapping[str, Any]) -> StyledAnalysis:
        """Build it from the number of clients."""
        return cls() if values is True else cls(values)

    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return the number of clients. Refuse runs whose clients restyle no images."""
        from fedflat.analysis.pictures import restyling

        if not restyling(loaded):
            raise SettingError(
                f"{loaded.folder}: no piece of {loaded.setup.exp.method} gives images the styles "
                "of other clients. Choose a run with cfsi() or lab()."
            )
        return {"each": self.each}

    def compute(self, job: AnalysisJob) -> Result:
        """Restyle one image of each client, as its first training does."""
        from fedflat.analysis.pictures import compute_styled

        return compute_styled(job, self.each)

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        """Return the piece and the number of images."""
        return f"{len(result['pairs'])} images by {result['piece']}"

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        """Return the pairs of images."""
        pairs = [
            {"client": one["client"], "domain": str(one["domain"])}
            | {side: png_text(one[side]) for side in ("before", "after")}
            for one in result["pairs"]
        ]
        return {"piece": str(result["piece"]), "pairs": pairs}

    @classmethod
    def expected(cls, headlines: Sequence[str], attacks: Sequence[str]) -> bool:
        """False: few runs restyle images."""
        return False
