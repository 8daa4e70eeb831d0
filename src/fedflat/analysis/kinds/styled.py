"""Training images of clients before and after they get the style of another client's image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings
from fedflat.analysis.shown_values import png_text
from fedflat.errors import SettingError
from fedflat.registry.specs import register
from fedflat.settings.setting import setting
from fedflat.tasks.headline import Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun


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
