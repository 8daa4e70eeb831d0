"""The base class of recorded metrics, and what a metric is given in a round."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import torch

from fedflat.client.local import LocalTraining
from fedflat.client.piece import Piece
from fedflat.client.training import ClientJob
from fedflat.core.messages import Broadcast, Replies, Reply, ReplyBatch
from fedflat.errors import PrintLine, SettingError
from fedflat.experiments.callbacks import (
    CallbackFactory,
    RecordedValues,
    RoundCallback,
    RunCallback,
)
from fedflat.experiments.run_setup import RunSetup
from fedflat.registry.specs import TextSpec, parse_list, registered
from fedflat.server.averaging import AverageState
from fedflat.server.step import StepResult

OnError = Callable[["Metric", Exception], None]
LINE_AND_HEAT_MAP = "line and heat map"
"""The drawing of metrics whose mean and whose single clients are both of interest."""
MOST_CLIENTS = 10_000
"""Largest federation all of whose clients are evaluated for a metric."""


@dataclass
class RoundView(RoundCallback):
    """One round, as metrics see it. `on_round_end` returns what they recorded.

    setup
        The run.
    cohort
        The clients of the round.
    """

    metrics: tuple[Metric, ...]
    setup: RunSetup
    round: int
    """Number of the round, from 0, as in errors. Rows of ``recorded.jsonl`` have ``round + 1``."""
    cohort: list[int]
    state: AverageState
    """What metrics keep from round to round, in checkpoints too. All metrics share it: begin a name
    with the metric's key. Replace tensors, never change them in place."""
    due: bool
    """Whether the round is evaluated: expensive metrics are measured only then."""
    scratch: dict[str, Any] = field(default_factory=dict)
    """What metrics keep within this round. All metrics share it: begin a name with the metric's key,
    unless several metrics use the value."""
    seconds: float = 0.0
    """Time spent on metrics during the round."""
    on_error: OnError = lambda metric, error: None
    """Called with a metric that failed. It records nothing more in this round, and the run
    continues."""

    def on_reply(self, broadcast: Broadcast, reply: Reply | ReplyBatch) -> None:
        if broadcast.instruction.trains:
            for metric in self.metrics:
                with self._aside(metric):
                    metric.on_reply(self, broadcast, reply)

    def on_aggregate(self, replies: Replies) -> None:
        """Pass on the end of an exchange."""
        if replies.broadcast.commit and replies.broadcast.instruction.trains:
            for metric in self.metrics:
                with self._aside(metric):
                    metric.on_aggregate(self, replies)

    def on_round_end(self, new: StepResult) -> RecordedValues:
        """The values recorded in this round, after the server step."""
        seen: RecordedValues = {}
        for metric in self.metrics:
            with self._aside(metric):
                seen |= metric.on_round_end(self, new)
        return {"round": self.round + 1, **seen} if seen else {}

    @contextmanager
    def _aside(self, metric: Metric) -> Iterator[None]:
        """Count the time, restore the random state, and drop a metric that raises."""
        begun = time.monotonic()
        try:
            with torch.random.fork_rng(devices=[]):
                yield
        except Exception as error:
            self.metrics = tuple(other for other in self.metrics if other is not metric)
            self.on_error(metric, error)
        self.seconds += time.monotonic() - begun


class Metric(TextSpec, ABC):
    """A quantity that is recorded in every round; it must not change the run. The base class
    records nothing.

    Subclasses are frozen dataclasses, registered with ``register("metric", "name")``. Their fields
    are the arguments that the text may give, as in ``--record "client_lambda(k=2)"``. A metric
    writes one value a round, under `key`; a second quantity is a second metric. The value is:

    - a number, which is drawn as a curve;
    - a dict from client to number, which is drawn as a curve of the mean over clients;
    - a list of numbers, which is drawn as a heat map, with one row per entry.

    ``drawing`` chooses otherwise: "line" is the curve of the mean, "heat map" has one row per
    client or entry, and "line and heat map" is both. "matrix" is for the rows of a square matrix,
    one after the other: it draws the last one, without its diagonal.
    """

    title: ClassVar[str] = ""
    """The title of its figure in the report; the key if empty."""
    note: ClassVar[str] = ""
    """A sentence or two below the title."""
    entries: ClassVar[str] = ""
    """What the entries of a list stand for, such as "class"."""
    drawing: ClassVar[str] = ""
    """"line", "heat map", "line and heat map", "matrix", or empty: by the type of the values."""
    unit: ClassVar[str] = ""
    """"%" for shares between 0 and 1, which are shown as percentages."""
    needs_models: ClassVar[bool] = False
    """Whether it needs the clients' own models with their replies."""

    @property
    def key(self) -> str:
        """The key of its values in ``recorded.jsonl``: its name, with the arguments that are not
        the default."""
        return repr(self).removesuffix("()")

    @property
    def labels(self) -> dict[str, str]:
        """What the report prints with the values."""
        labels = {
            "title": self.title or self.key,
            "note": self.note,
            "entries": self.entries,
            "unit": self.unit,
        }
        return labels | ({"drawing": self.drawing} if self.drawing else {})

    @abstractmethod
    def cost(self, setup: RunSetup) -> str:
        """What recording costs, as a phrase for the progress output."""

    def check(self, setup: RunSetup) -> None:
        """Raise a `SettingError` if the metric is not defined for this run."""

    def pieces(self, local: LocalTraining) -> tuple[Piece, ...]:
        """Client pieces that measure and change nothing."""
        return ()

    def on_reply(self, s: RoundView, broadcast: Broadcast, reply: Reply | ReplyBatch) -> None:
        """Called with each usable reply, of one client or of several, of a training exchange whose
        broadcast has ``commit=True`` (not a probe).

        `fedflat.single_replies` gives the replies of single clients. Replies may be
        kept until the end of the round; do not change their tensors.
        """

    def on_aggregate(self, s: RoundView, replies: Replies) -> None:
        """Called at the end of each training exchange whose broadcast has ``commit=True``."""

    def on_round_end(self, s: RoundView, new: StepResult) -> RecordedValues:
        """The values to write after the server step."""
        return {}


def refuse_elsewhere(metric: Metric, setup: RunSetup) -> None:
    """Refuse a metric that needs client data where the data are not on this machine."""
    if not setup.fed.here:
        raise SettingError(
            f"record: {metric.key} needs the clients' data, which are not on this machine. Remove "
            "it from --record."
        )


def refuse_many_clients(metric: Metric, setup: RunSetup) -> None:
    """Refuse a metric that needs the data of all clients where there are too many of them."""
    refuse_elsewhere(metric, setup)
    if setup.fed.population > MOST_CLIENTS:
        raise SettingError(
            f"record: {metric.key} evaluates all clients, at most {MOST_CLIENTS:,}, and there are "
            f"{setup.fed.population:,}. Remove it from --record."
        )


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
                "The metric is left out "
                "of this round, and of later rounds in which it fails. The run continues."
            )


def recording_callback(text: str | None) -> CallbackFactory:
    """The metrics that a text names, as a callback of a run; no callback if it names none."""

    def callbacks(setup: RunSetup, print_line: PrintLine) -> Sequence[RunCallback]:
        recorder = Recorder.of(setup, text, print_line)
        return [recorder] if recorder.metrics else []

    return callbacks
