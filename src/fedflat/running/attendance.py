"""Who of those that were asked has answered, and what becomes of a round in which some have not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fedflat.engine.mail import Mail, Reply, Sheaf, rows
from fedflat.engine.missing import LATE, NOT_FINITE, REFUSED, Missing
from fedflat.errors import FedflatError, NotFinite
from fedflat.executors.crew import Visited
from fedflat.running.experiment import Experiment

NAMED = 5
"""The most missing clients that a message names."""


class Diverged(Exception):
    """A reply was not finite, and the run is to be recorded as diverged."""


class TooFew(FedflatError):
    """Fewer replies came than there must be."""


@dataclass
class Attendance:
    """Those missing in a round, as far as the run's settings allow it."""

    exp: Experiment
    missing: list[Missing] = field(default_factory=list)

    def excuse(self, t: int, one: Missing, diagnose: Callable[[], str]) -> None:
        """Go on without a client in round ``t``, or do not; ``diagnose`` says where a number went wrong."""
        if one.reason == NOT_FINITE:
            self._not_finite(t, one, diagnose)
        else:
            self.check(t, one)
        self.missing.append(one)

    def check(self, t: int, one: Missing) -> None:
        """Raise the error of a failed visit of round ``t``, unless the run allows missing clients."""
        if self.exp.min_replies is None:
            raise one.error or FedflatError(f"round {t}: {one}. To go on without such clients, set min_replies.")

    def _not_finite(self, t: int, one: Missing, diagnose: Callable[[], str]) -> None:
        if self.exp.on_bad == "stop":
            raise Diverged
        if self.exp.on_bad != "skip":
            raise NotFinite(
                f"round {t}, client {one.client}: the reply is NaN or infinite; {diagnose()}. Lower the learning rate "
                "or clip gradients; on_bad='skip' leaves such replies out, on_bad='stop' records the run as diverged."
            )

    def enough(self, t: int, came: int) -> None:
        """Refuse to go on with fewer replies than the run must have."""
        least = self.exp.min_replies
        if least is not None and came < least:
            who = "; ".join(map(str, self.missing[-NAMED:])) + ("; ..." if len(self.missing) > NAMED else "")
            raise TooFew(
                f"round {t}: {came} replies came that could be used, and min_replies asks for {least} at least: {who}. "
                "See what went wrong there, ask more clients a round, or ask for fewer replies."
            )

    def told(self) -> list[dict[str, object]]:
        """Who was missing and why, as it is written down."""
        names = ("client", "letter", "reason", "why")
        return [{name: getattr(one, name) for name in names} for one in self.missing]


def answers(
    visits: Iterable[Visited], asked: Mapping[str, int], mail: Mail, *, each: bool
) -> Iterator[Visited]:  # fmt: skip
    """What came of the letters ``asked``, ids and whom they went to; who says nothing at all is too late.

    Answers to other letters are dropped. Sheaves are as they are; their replies come one by one if ``each`` is wanted,
    or if some are not finite.
    """
    waiting = dict(asked)
    for visited in visits:
        for one in (visited,) if _single(visited) else _apart(visited, each):
            if not _expected(one, waiting):
                continue
            if isinstance(one, Missing) or _fits(one[0], mail):
                yield one
            elif isinstance(one[0], Reply):
                yield Missing(one[0].client, one[0].letter, REFUSED, "the reply does not fit the model")
    for letter, client in waiting.items():
        yield Missing(client, letter, LATE, "no answer came")


def _single(visited: Visited) -> bool:
    return isinstance(visited, Missing) or isinstance(visited[0], Reply)


def _apart(visited: Visited, each: bool) -> Iterator[Visited]:
    assert not isinstance(visited, Missing)
    reply, memory = visited
    if isinstance(reply, Sheaf) and (each or not reply.finite):
        yield from zip(reply, rows(memory, len(reply)), strict=True)
    else:
        yield reply, memory


def _expected(one: Visited, waiting: dict[str, int]) -> bool:
    """Whether it answers letters that wait for an answer, which then wait no more."""
    answer = one if isinstance(one, Missing) else one[0]
    if not isinstance(answer, Sheaf):
        return waiting.pop(answer.letter, None) is not None
    letters = answer.letters
    if not all(letter in waiting for letter in letters):
        return False
    for letter in letters:
        del waiting[letter]
    return True


def _fits(reply: Reply | Sheaf, mail: Mail) -> bool:
    """Whether a reply is of the model's size, where it should be."""
    if not mail.ask.up:
        return True
    return reply.delta.shape[-1:] == mail.params.shape and reply.buffers.shape[-1:] == mail.buffers.shape
