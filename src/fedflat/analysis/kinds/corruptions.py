"""The headline score under each kind of image corruption."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedflat.analysis.analysis import Analysis, AnalysisJob, Result, Scope, Settings
from fedflat.analysis.shown_values import short, shorts
from fedflat.core.json_schema import NUMBER
from fedflat.registry.specs import register
from fedflat.tasks.headline import Headline

if TYPE_CHECKING:
    from fedflat.analysis.corruptions.corruptions import Official
    from fedflat.analysis.loaded_run import LoadedRun
    from fedflat.data.examples import ClientData


@register("analysis", "corruptions")
@dataclass(frozen=True, repr=False)
class CorruptionsAnalysis(Analysis):
    """score under corrupted images: all 19 kinds of corruption, or the named ones

    The published images are used if they exist for the test set and were downloaded.
    """

    kinds: tuple[str, ...] = ()

    title = "Corrupted images"
    short_title = "Corruptions"
    position = 130
    subject = "scores on corrupted images"
    result_schema = {
        "kinds": {"*": [NUMBER]},
        "clean?": NUMBER,
        "mean?": NUMBER,
        "source?": str,
        "*": object,
    }
    partial_schema = {"*": [float]}
    values = "*"
    metavar = "KIND"

    @classmethod
    def from_values(cls, values: Any, options: Mapping[str, Any]) -> CorruptionsAnalysis:
        """Build it from the names of the kinds."""
        return cls(tuple(values))

    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return model, examples, kinds and the source of the images."""
        from fedflat.analysis.corruptions.evaluate import source

        name, _ = loaded.model(scope.model)
        reference = _reference(loaded)
        return {
            **scope.settings(loaded, name),
            "kinds": list(self.kinds) or None,
            "images": source(_published(loaded, scope)),
            **({} if reference is None else {"looked up in": len(reference)}),
        }

    def compute(self, job: AnalysisJob) -> Result:
        """Evaluate one kind after the other."""
        from fedflat.analysis.corruptions.evaluate import evaluate_corruptions, result

        scores_of_kinds: dict[str, list[float]] = job.load_partial() or {}
        published = _published(job.loaded, job.scope)
        for kind, scores in evaluate_corruptions(
            job.loaded.setup.job.learner,
            job.loaded.model(job.scope.model)[1],
            job.scope.data(job.loaded),
            kinds=self.kinds or None,
            seed=job.scope.seed,
            known=list(scores_of_kinds),
            on_progress=job.on_progress,
            published=published,
            reference=_reference(job.loaded),
        ):
            scores_of_kinds[kind] = scores
            job.save_partial(scores_of_kinds)
        return result(scores_of_kinds, published)

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        """Return the scores on clean and on corrupted images."""
        values = (result.get(name) for name in ("clean", "mean"))
        clean, mean = (headline.with_unit(math.nan if one is None else one) for one in values)
        source = result.get("source")
        return f"{headline.label} {clean} clean, {mean} over all corruptions ({source})"

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        """Return the scores by kind, and the means."""
        kinds = {str(name): shorts(values) for name, values in result["kinds"].items()}
        means = {name: short(result.get(name)) for name in ("clean", "mean")}
        return {**means, "kinds": kinds, "source": str(result.get("source", ""))}


def _published(loaded: LoadedRun, scope: Scope) -> Official | None:
    from fedflat.analysis.corruptions.corruptions import official

    return official(loaded.experiment.on) if scope.where == "test" else None


def _reference(loaded: LoadedRun) -> ClientData | None:
    """Return the clean gallery, if the task has one."""
    return loaded.setup.fed.tests.get(loaded.setup.exp.task.reference)
