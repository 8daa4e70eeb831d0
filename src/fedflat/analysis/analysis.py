"""The interface of analyses of a run folder: which exist, what they compute, and what is shown.

An analysis is a frozen dataclass under ``register("analysis", "name")``, one file each in `kinds`,
found by being there. Its fields are its options. Modules in `kinds` import PyTorch only when they
compute, so that the command line and the report can list them quickly.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from fedflat.core.json_schema import Schema
from fedflat.errors import LARGEST_SEED, number
from fedflat.registry.specs import TextSpec, name_of, registered
from fedflat.settings.setting import check
from fedflat.tasks.headline import ACCURACY, Headline

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun
    from fedflat.data.examples import ClientData
    from fedflat.flatness.budget import AnalysisCost

Settings = dict[str, Any]
"""What identifies a stored analysis of a run, as JSON values."""
Result = dict[str, Any]
"""What an analysis found, as JSON values."""
OnProgress = Callable[[float, float, str], None]
"""Called with the amount done, the total amount, and what is being done."""
OnCost = Callable[["AnalysisCost"], object]
"""Called with the expected cost before an expensive computation."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Which model and which examples to analyse.

    Args:
        model: Name of the model, such as "server" or "swa". None: the one that the run reports.
        where: The examples: "test", "train" (of all clients) or "client:K".
        examples: Number of examples, sampled by `seed`. None: all of them.
        seed: Seed of samples, directions and random vectors, at least 0.
    """

    model: str | None = None
    where: str = "test"
    examples: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        number("analyse", "seed", self.seed, low=0, high=LARGEST_SEED, whole=True)

    def data(self, loaded: LoadedRun) -> ClientData:
        """Return the examples."""
        from fedflat.flatness.subsample import subset

        data = loaded.examples(self.where)
        if self.examples is None or self.examples >= len(data):
            return data
        return subset(data, self.examples, self.seed)

    def settings(self, loaded: LoadedRun, model: str) -> Settings:
        """Return the settings that identify an analysis of this model on these examples."""
        whole = len(loaded.examples(self.where))
        values = {
            "model": model,
            "set": self.where,
            "examples": None if self.examples is None or self.examples >= whole else self.examples,
            "of": whole,
            "seed": self.seed,
        }
        return values | loaded.round_setting


@dataclass(frozen=True)
class AnalysisResult:
    kind: str
    result: Result
    fresh: bool
    """True if it was computed now, False if it was loaded."""
    headline: Headline = ACCURACY
    """The headline score of the run."""


@dataclass(frozen=True)
class AnalysisJob:
    """One analysis of one run, as its `Analysis.compute` receives it.

    kind
        Name of the analysis.
    loaded
        The run.
    scope
        Which model and which examples.
    settings
        What identifies the result.
    on_progress
        Called with the amount done, the total amount, and what is being done.
    on_cost
        Called with the expected cost before an expensive computation.
    """

    kind: str
    loaded: LoadedRun
    scope: Scope
    settings: Settings
    on_progress: OnProgress
    on_cost: OnCost

    def load_partial(self) -> Any:
        """Return what an interrupted computation saved, or None."""
        return self.loaded.store.load_partial(self.kind, self.settings)

    def save_partial(self, partial: object) -> None:
        """Save a partial result, from which a later computation continues."""
        self.loaded.store.save_partial(self.kind, self.settings, partial)


class Analysis(TextSpec, ABC):
    """An analysis of a run folder; its fields are its options, each declared with `setting`.

        @register("analysis", "norms_of_layers")
        @dataclass(frozen=True, repr=False)
        class NormsOfLayers(Analysis):
            '''norm of the parameters of each layer'''

            title = "Norms of layers"

            def settings(self, loaded, scope):
                return {"model": loaded.model(scope.model)[0]}

            def compute(self, job):
                _, model = job.loaded.model(job.scope.model)
                return {"norm": float(model.params.norm())}

    The first paragraph of the docstring is the help of its option. ``fedflat analyse RUN --analyses
    norms_of_layers`` computes it. The report draws its numbers as a table, lists of numbers as
    lines, and lists of lists as heat maps. A file of the same name in ``report/assets/`` can draw
    them otherwise.
    """

    title: ClassVar[str] = ""
    """The heading in the report; the name if empty."""
    short_title: ClassVar[str] = ""
    """The entry in the report's navigation, if the heading is too long for it."""
    position: ClassVar[int] = 145
    """Where the report shows it; smaller numbers come first."""
    subject: ClassVar[str] = ""
    """What is missing in a report without it, in the plural. Empty: nothing is written."""
    of_every_run: ClassVar[bool] = True
    """False if one result may be of several runs, or if some runs cannot have any."""
    always: ClassVar[bool] = False
    """True if ``fedflat analyse`` always computes it."""
    result_schema: ClassVar[Schema] = {"*": object}
    """The shape of results. Files with another shape are damaged."""
    partial_schema: ClassVar[Schema] = object
    """The shape of partial results."""
    option: ClassVar[str] = ""
    """Its option on the command line, if it differs from its name."""
    values: ClassVar[int | str | None] = None
    """How many values the option has: a number, "?" for at most one, "*" for any; None: none."""
    metavar: ClassVar[str | tuple[str, ...]] = "VALUE"
    """What the help calls these values."""

    def __post_init__(self) -> None:
        check("analyse", self)

    @classmethod
    def kind(cls) -> str:
        """Its name."""
        return name_of(cls)

    @classmethod
    def summary(cls) -> str:
        """The first paragraph of its docstring, in one line."""
        return " ".join((cls.__doc__ or "").split("\n\n")[0].split())

    @classmethod
    def from_values(cls, values: Any, options: Mapping[str, Any]) -> Analysis:
        """Build it from the values of its option and from the options that are its fields."""
        return cls(**options)

    def jobs(self, runs: Sequence[LoadedRun]) -> Iterator[tuple[str, Analysis, LoadedRun]]:
        """Iterate over what to compute: a title, the analysis and its run.

        Wrong use is refused here, before anything is computed.
        """
        name = self.kind().replace("_", " ")
        return ((f"{run.folder}: {name}", self, run) for run in runs)

    @abstractmethod
    def settings(self, loaded: LoadedRun, scope: Scope) -> Settings:
        """Return what identifies its result for this run. Runs without any are refused here."""

    @abstractmethod
    def compute(self, job: AnalysisJob) -> Result:
        """Compute the result."""

    def analyse(
        self,
        loaded: LoadedRun,
        scope: Scope,
        on_progress: OnProgress,
        on_cost: OnCost = lambda cost: None,
    ) -> AnalysisResult:
        """Load the stored result, or compute and store it.

        Args:
            loaded: The run.
            scope: Which model and which examples.
            on_progress: Called with the amount done, the total amount, and what is being done.
            on_cost: Called with the expected cost before an expensive computation.
        """
        kind, settings = self.kind(), self.settings(loaded, scope)
        headline = loaded.experiment.headline
        stored = loaded.store.result(kind, settings)
        if stored is not None:
            return AnalysisResult(kind, stored, fresh=False, headline=headline)
        start = time.monotonic()
        result = self.compute(AnalysisJob(kind, loaded, scope, settings, on_progress, on_cost))
        loaded.store.save(kind, settings, result, time.monotonic() - start)
        return AnalysisResult(kind, result, fresh=True, headline=headline)

    @classmethod
    def sentence(cls, result: Result, headline: Headline) -> str:
        """Return the result in one line, for the command line."""
        numbers = (
            f"{name} {text(value)}" for name, value in result.items() if isinstance(value, float)
        )
        return ", ".join(numbers) or "computed"

    @classmethod
    def for_report(cls, result: Result, settings: Settings) -> Result:
        """Return what the report shows of a result. Raise `Damaged` if it cannot be shown."""
        from fedflat.analysis.shown_values import shown

        return {name: shown(value) for name, value in result.items()}

    @classmethod
    def expected(cls, headlines: Sequence[str], attacks: Sequence[str]) -> bool:
        """True if runs with these headlines and attacks can have it.

        A report that lacks it then names its `subject`.
        """
        return True


def text(value: float | None, format_spec: str = ".4g") -> str:
    """Return a number as text. None stands for NaN.

    >>> text(1 / 3), text(None)
    ('0.3333', 'nan')
    """
    return format(math.nan if value is None else value, format_spec)


def analyses(*, plugins: bool = True) -> dict[str, type[Analysis]]:
    """Return the classes of all analyses by name, in the order in which the report shows them.

    Without `plugins`, plugins that are not loaded yet are left out.
    """
    entries = registered("analysis", plugins=plugins)
    found: dict[str, type[Analysis]] = {entry.name: cast(Any, entry.make) for entry in entries}
    return dict(sorted(found.items(), key=lambda one: one[1].position))
