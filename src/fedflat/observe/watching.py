"""Which watchers there are, and those of one run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from fedflat.client.visit import ClientJob
from fedflat.errors import SettingError, nearest
from fedflat.observe.alignment import Alignment
from fedflat.observe.classes import Classes
from fedflat.observe.client_lambda import ClientLambda
from fedflat.observe.delta_eps import DeltaEps
from fedflat.observe.drift import Drift
from fedflat.observe.features import Features
from fedflat.observe.norms import Norms
from fedflat.observe.watcher import Sight, Watcher
from fedflat.running.listening import Listener, Listening, Say
from fedflat.running.prepare import Ready
from fedflat.server.shadows import Notes

WATCHERS: dict[str, Watcher] = {
    watcher.name: watcher
    for watcher in (Drift(), Alignment(), Norms(), Features(), Classes(), DeltaEps(), ClientLambda())
}
KEY = "watch"
"""Where watchers' notes are, among those of the shadows."""
ALL = "all"
"""Whatever there is to see in a run."""


def watchers_of(text: str | None) -> tuple[Watcher, ...]:
    """The watchers that a text names.

    >>> [watcher.name for watcher in watchers_of("norms, drift")], watchers_of(None), watchers_of("none")
    (['norms', 'drift'], (), ())
    """
    if text == ALL:
        return tuple(WATCHERS.values())
    names = [] if text in (None, "", "none") else list(dict.fromkeys(name.strip() for name in str(text).split(",")))
    for name in names:
        if name not in WATCHERS:
            there = f"{', '.join(WATCHERS)}, all, or none"
            raise SettingError(f"watch: nobody can watch {name!r}.{nearest(name, WATCHERS)} There are {there}.")
    return tuple(WATCHERS[name] for name in names)


def _has_something_to_see(watcher: Watcher, ready: Ready) -> bool:
    try:
        watcher.check(ready)
    except SettingError:
        return False
    return True


@dataclass(frozen=True)
class Watching(Listener):
    """The watchers of one run; without any, nothing is done and nothing is changed."""

    ready: Ready
    watchers: tuple[Watcher, ...] = ()
    say: Say = lambda text: None
    troubled: set[str] = field(default_factory=set)
    """Who has failed, and was told of."""

    @classmethod
    def of(cls, ready: Ready, text: str | None, say: Say = lambda text: None) -> Watching:
        """Those that a text names, if they have something to see in this run; ``say`` is told if one fails."""
        watchers = watchers_of(text)
        slots = ready.supposed.slots
        if watchers and len(slots) > 1:
            raise SettingError(
                f"watch: {ready.exp.topology} has {len(slots)} models at the server, and watchers look at one. "
                "Leave --watch out."
            )
        if text == ALL:
            watchers = tuple(watcher for watcher in watchers if _has_something_to_see(watcher, ready))
        for watcher in watchers:
            watcher.check(ready)
        return cls(ready, watchers, say)

    def costs(self) -> list[str]:
        """What each of them costs."""
        return [f"watching {watcher.name}: {watcher.cost(self.ready)}" for watcher in self.watchers]

    def job(self, job: ClientJob) -> ClientJob:
        """The clients' job, with what watchers measure there."""
        more = tuple(piece for watcher in self.watchers for piece in watcher.pieces(job.local))
        if any(watcher.looks for watcher in self.watchers):
            job = replace(job, shows=True)
        return replace(job, pieces=(*job.pieces, *more)) if more else job

    def listen(self, t: int, cohort: list[int], notes: dict[str, Notes], due: bool) -> Sight:
        """Round ``t`` as they see it; they write into ``notes``, which a round hands on to the next."""
        mine = notes.setdefault(KEY, {}) if self.watchers else {}
        return Sight(self.watchers, self.ready, t, cohort, mine, due, trouble=partial(self._trouble, t))

    def _trouble(self, t: int, watcher: Watcher, error: Exception) -> None:
        """What watches never ends what it watches: a line, once, and nothing seen."""
        if watcher.name not in self.troubled:
            self.troubled.add(watcher.name)
            self.say(
                f"watching {watcher.name} failed in round {t} ({type(error).__name__}: {error}). It is left out there, "
                "and wherever it fails again; the run goes on."
            )


def as_listener(text: str | None) -> Listening:
    """Those that a text names, as listeners of a run."""
    return lambda ready, say: Watching.of(ready, text, say)
