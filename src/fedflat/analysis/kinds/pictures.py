"""Image, ground truth and predicted mask of some examples of every test set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings
from fedflat.analysis.shown_values import png_text, short
from fedflat.core.json_schema import NUMBER
from fedflat.errors import SettingError
from fedflat.files import Damaged
from fedflat.registry.specs import register
from fedflat.settings.setting import setting
from fedflat.tasks.headline import MIOU, Headline

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
