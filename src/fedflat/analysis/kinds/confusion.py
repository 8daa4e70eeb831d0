"""The confusion matrix of each test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings
from fedflat.analysis.shown_values import same_length
from fedflat.errors import SettingError
from fedflat.files import Damaged
from fedflat.registry.specs import register
from fedflat.tasks.headline import ACCURACY, MIOU, Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun

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
