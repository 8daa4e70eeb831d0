"""The metrics that a text names, and the recorder of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from fedflat.client.training import ClientJob
from fedflat.errors import PrintLine, SettingError
from fedflat.experiments.callbacks import CallbackFactory, RunCallback
from fedflat.experiments.recording.recorder import Metric, RoundView
from fedflat.experiments.run_setup import RunSetup
from fedflat.registry.specs import parse_list, registered
from fedflat.server.averaging import AverageState

NOTES = "record"
"""The key of the metrics' notes among those of the model averages."""
ALL = "all"
"""The text for every registered metric that is defined for the run, with its default arguments."""


def metrics_of(text: str | None) -> tuple[Metric, ...]:
    """The metrics that a text names, each once.

    >>> metrics_of("norms, drift, norms"), metrics_of(None), metrics_of("none")
    ((norms(), drift()), (), ())
    """
    if text in (None, "", "none"):
        return ()
    if text == ALL:
        return tuple(entry.make() for entry in registered("metric") if not entry.required)
    return tuple(dict.fromkeys(parse_list(str(text), "metric")))


def _is_defined(metric: Metric, setup: RunSetup) -> bool:
    try:
        metric.check(setup)
    except SettingError:
        return False
    return True


@dataclass(frozen=True)
class Recorder(RunCallback):
    """Records the metrics of one run."""

    setup: RunSetup
    metrics: tuple[Metric, ...] = ()
    print_line: PrintLine = lambda text: None
    failed: set[str] = field(default_factory=set)
    """The keys of metrics whose failure was reported."""

    @classmethod
    def of(
        cls, setup: RunSetup, text: str | None, print_line: PrintLine = lambda text: None
    ) -> Recorder:
        """The recorder of the metrics that a text names; ``print_line`` is called if one fails."""
        metrics = metrics_of(text)
        server = setup.server
        if metrics and server.groups_known and len(server.slots) > 1:
            raise SettingError(
                f"record: metrics are defined for one server model, and {server.topology} has "
                f"{len(server.slots)}. Remove --record."
            )
        if text == ALL:
            metrics = tuple(metric for metric in metrics if _is_defined(metric, setup))
        for metric in metrics:
            metric.check(setup)
        return cls(setup, metrics, print_line)

    def costs(self) -> list[str]:
        """A sentence about the cost of each metric."""
        return [f"recording {metric.key}: {metric.cost(self.setup)}" for metric in self.metrics]

    @property
    def labels(self) -> dict[str, dict[str, str]]:
        """The labels of each metric, by its key."""
        return {metric.key: metric.labels for metric in self.metrics}

    def job(self, job: ClientJob) -> ClientJob:
        """The clients' job, with the pieces that measure."""
        more = tuple(piece for metric in self.metrics for piece in metric.pieces(job.local))
        if any(metric.needs_models for metric in self.metrics):
            job = replace(job, returns_models=True)
        return replace(job, pieces=(*job.pieces, *more)) if more else job

    def on_round_start(
        self, t: int, cohort: list[int], notes: dict[str, AverageState], due: bool
    ) -> RoundView:
        """The view of round ``t``; metrics write into ``notes``, which are kept for the next
        round."""
        mine = notes.setdefault(NOTES, {}) if self.metrics else {}
        return RoundView(
            self.metrics, self.setup, t, cohort, mine, due, on_error=partial(self._on_error, t)
        )

    def _on_error(self, t: int, metric: Metric, error: Exception) -> None:
        """Report a metric's first failure; the run continues."""
        if metric.key not in self.failed:
            self.failed.add(metric.key)
            self.print_line(
                f"recording {metric.key} failed in round {t + 1} ({type(error).__name__}: {error}). "
                "The metric is left out of this round, and of later rounds in which it fails. The run continues."
            )


def recording_callback(text: str | None) -> CallbackFactory:
    """The metrics that a text names, as a callback of a run; no callback if it names none."""

    def callbacks(setup: RunSetup, print_line: PrintLine) -> Sequence[RunCallback]:
        recorder = Recorder.of(setup, text, print_line)
        return [recorder] if recorder.metrics else []

    return callbacks
