"""Which watchers there are, and those of one run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from fedflat.client.training import ClientJob
from fedflat.errors import SettingError, nearest
from fedflat.experiments.callbacks import CallbackFactory, RunCallback, Say
from fedflat.experiments.prepare import PreparedRun
from fedflat.experiments.recording.alignment import Alignment
from fedflat.experiments.recording.classes import Classes
from fedflat.experiments.recording.client_lambda import ClientLambda
from fedflat.experiments.recording.delta_eps import DeltaEps
from fedflat.experiments.recording.drift import Drift
from fedflat.experiments.recording.features import Features
from fedflat.experiments.recording.norms import Norms
from fedflat.experiments.recording.recorder import MetricRecorder, RoundRecorder
from fedflat.server.averaging import AverageState

RECORDERS: dict[str, MetricRecorder] = {
    watcher.name: watcher
    for watcher in (
        Drift(),
        Alignment(),
        Norms(),
        Features(),
        Classes(),
        DeltaEps(),
        ClientLambda(),
    )
}
KEY = "watch"
"""Where watchers' notes are, among those of the shadows."""
ALL = "all"
"""Whatever there is to see in a run."""


def recorders_of(text: str | None) -> tuple[MetricRecorder, ...]:
    """The watchers that a text names.

    >>> [watcher.name for watcher in recorders_of("norms, drift")], recorders_of(None), recorders_of("none")
    (['norms', 'drift'], (), ())
    """
    if text == ALL:
        return tuple(RECORDERS.values())
    names = (
        []
        if text in (None, "", "none")
        else list(dict.fromkeys(name.strip() for name in str(text).split(",")))
    )
    for name in names:
        if name not in RECORDERS:
            there = f"{', '.join(RECORDERS)}, all, or none"
            raise SettingError(
                f"watch: nobody can watch {name!r}.{nearest(name, RECORDERS)} There are {there}."
            )
    return tuple(RECORDERS[name] for name in names)


def _has_something_to_see(recorder: MetricRecorder, prepared: PreparedRun) -> bool:
    try:
        recorder.check(prepared)
    except SettingError:
        return False
    return True


@dataclass(frozen=True)
class Recording(RunCallback):
    """The watchers of one run; without any, nothing is done and nothing is changed."""

    prepared: PreparedRun
    recorders: tuple[MetricRecorder, ...] = ()
    say: Say = lambda text: None
    troubled: set[str] = field(default_factory=set)
    """Who has failed, and was told of."""

    @classmethod
    def of(cls, prepared: PreparedRun, text: str | None, say: Say = lambda text: None) -> Recording:
        """Those that a text names, if they have something to see in this run; ``say`` is told if
        one fails."""
        recorders = recorders_of(text)
        slots = prepared.with_guessed_groups.slots
        if recorders and len(slots) > 1:
            raise SettingError(
                f"watch: {prepared.exp.topology} has {len(slots)} models at the server, and watchers look at one. "
                "Leave --watch out."
            )
        if text == ALL:
            recorders = tuple(
                recorder for recorder in recorders if _has_something_to_see(recorder, prepared)
            )
        for recorder in recorders:
            recorder.check(prepared)
        return cls(prepared, recorders, say)

    def costs(self) -> list[str]:
        """What each of them costs."""
        return [
            f"watching {recorder.name}: {recorder.cost(self.prepared)}"
            for recorder in self.recorders
        ]

    def job(self, job: ClientJob) -> ClientJob:
        """The clients' job, with what watchers measure there."""
        more = tuple(piece for recorder in self.recorders for piece in recorder.pieces(job.local))
        if any(recorder.needs_client_models for recorder in self.recorders):
            job = replace(job, returns_models=True)
        return replace(job, pieces=(*job.pieces, *more)) if more else job

    def on_round_start(
        self, t: int, cohort: list[int], notes: dict[str, AverageState], due: bool
    ) -> RoundRecorder:
        """Round ``t`` as they see it; they write into ``notes``, which a round hands on to the
        next."""
        mine = notes.setdefault(KEY, {}) if self.recorders else {}
        return RoundRecorder(
            self.recorders, self.prepared, t, cohort, mine, due, trouble=partial(self._trouble, t)
        )

    def _trouble(self, t: int, recorder: MetricRecorder, error: Exception) -> None:
        """What watches never ends what it watches: a line, once, and nothing seen."""
        if recorder.name not in self.troubled:
            self.troubled.add(recorder.name)
            self.say(
                f"watching {recorder.name} failed in round {t} ({type(error).__name__}: {error}). It is left out "
                "there, and wherever it fails again; the run goes on."
            )


def recording_callback(text: str | None) -> CallbackFactory:
    """Those that a text names, as listeners of a run."""
    return lambda prepared, say: Recording.of(prepared, text, say)
