"""Distance of the images that an attacking client recovered, and some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings, text
from fedflat.analysis.shown_values import png_text, short
from fedflat.core.json_schema import NUMBER
from fedflat.registry.specs import register
from fedflat.tasks.headline import Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun


@register("analysis", "recovery")
@dataclass(frozen=True, repr=False)
class RecoveryAnalysis(Analysis):
    """distance of the images that the attack gan(...) has recovered"""

    title = "Recovered from models"
    short_title = "Recovered"
    position = 140
    subject = "images recovered from models"
    of_every_run = False
    result_schema = {
        "client": int,
        "requests": int,
        "features": str,
        "real": int,
        "made": int,
        "accuracy?": NUMBER,
        "distance": NUMBER,
        "test?": NUMBER,
        "untrained?": NUMBER,
        "recovered": str,
        "originals": str,
        "*": object,
    }
    option = "recovered"

    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return the attacker and the numbers of the measurement. Refuse runs without attack."""
        from fedflat.analysis.recovery import recovery_settings

        return recovery_settings(loaded) | loaded.round_setting

    def compute(self, job: AnalysisJob) -> Result:
        """Compute the distances and draw some images."""
        from fedflat.analysis.recovery import compute_recovery

        return compute_recovery(job)

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        names = ("distance", "test", "untrained")
        distance, test, untrained = (text(result.get(name)) for name in names)
        return (
            f"Fréchet distance {distance} of the images that client {result['client']} recovered "
            f"in {result['requests']} rounds (test images: {test}, untrained generator: {untrained}; "
            f"higher is safer), features: {result['features']}"
        )

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        """Return the distances and both sheets of images."""
        distances = ("distance", "test", "untrained", "accuracy")
        return {
            **{name: short(result.get(name)) for name in distances},
            **{name: result[name] for name in ("client", "requests", "real", "made")},
            **{name: png_text(result[name]) for name in ("recovered", "originals")},
            "features": str(result["features"]),
        }

    @classmethod
    def expected(cls, headlines: Sequence[str], attacks: Sequence[str]) -> bool:
        """True for runs with the attack gan(...)."""
        return any(attack.startswith("gan(") for attack in attacks)
