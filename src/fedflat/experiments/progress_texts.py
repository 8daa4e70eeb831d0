"""The progress of a run in words: a whole sentence, or what fits into a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fedflat.experiments.progress import Progress
from fedflat.experiments.results.scenario import without_arguments
from fedflat.tasks.headline import ACCURACY, Headline
from fedflat.text_table import duration


@dataclass(frozen=True)
class RunLabel:
    method: str
    seed: int
    place: int = 1
    total: int = 1
    headline: Headline = ACCURACY

    @property
    def title(self) -> str:
        return f"{f'[{self.place}/{self.total}] ' if self.total > 1 else ''}{self.method}, seed {self.seed}"

    def names(self) -> Iterator[str]:
        """The method, shorter and shorter: without arguments, then its first piece only.

        >>> list(RunLabel("fedasam(rho=warmup(0.1, 0.5, 9)) + swa()", 0).names())[1:]
        ['fedasam + swa, seed 0', 'fedasam + swa', 'fedasam + ...']
        """
        bare = re.sub(r"\s+", " ", without_arguments(self.method))
        first, plus, _ = bare.partition(" + ")
        yield f"{self.method}, seed {self.seed}"
        yield f"{bare}, seed {self.seed}"
        yield bare
        yield f"{first} + ..." if plus else bare


@dataclass(frozen=True)
class ProgressParts:
    """The parts of a progress line, the most important first; empty where there is nothing."""

    round: str
    score: tuple[str, str, str]
    """The last test score: with its round; shorter; without the name of the score."""
    loss: str = ""
    left: tuple[str, str] = ("", "")
    """The time left of the run and of the study; the more important of the two."""
    speed: str = ""

    @classmethod
    def of(cls, progress: Progress, headline: Headline) -> ProgressParts:
        """A run that has not begun has a number of rounds only."""
        if progress.described is not None:
            return cls(
                "round 0: {:,} of {:,} clients described".format(*progress.described), ("", "", "")
            )
        round = f"{progress.phase} round {progress.round}/{progress.rounds}".lstrip()
        if not progress.round:
            return cls(round, _score(progress, headline))
        speed = f"{progress.speed:,.0f} samples/s"
        return cls(
            round,
            _score(progress, headline),
            f"train loss {_short(progress.loss)}",
            _left(progress),
            speed,
        )


def _score(progress: Progress, headline: Headline) -> tuple[str, str, str]:
    """The last test score and the round it was computed in; a short form leaves the current round
    out.

    >>> _score(Progress(17, 40, row={"round": 15, "accuracy": 0.134}), ACCURACY)
    ('test 13.40 % (round 15)', 'test 13.40 % (r15)', 'test 13.40 % (r15)')
    >>> _score(Progress(15, 40, row={"round": 15, "miou": 0.25}), Headline("miou", "mIoU", "%", 100.0))
    ('test mIoU 25.00 % (round 15)', 'test mIoU 25.00 %', 'test 25.00 %')
    """
    if progress.row is None or headline.name not in progress.row:
        return "", "", ""
    value, at = headline.with_unit(progress.row[headline.name]), progress.row["round"]
    named = f"test {value}" if headline.name == ACCURACY.name else f"test {headline.label} {value}"
    short = "" if at == progress.round else f" (r{at})"
    return f"{named} (round {at})", f"{named}{short}", f"test {value}{short}"


def _left(progress: Progress) -> tuple[str, str]:
    """The time left of the run and of the study, and a short form.

    >>> _left(Progress(15, 40, seconds_per_round=2.0))
    ('50s left', '50s left')
    >>> _left(Progress(15, 40, seconds_per_round=2.0, study_left=7800.0))
    ('50s left (study 2h10m)', 'study 2h10m left')
    >>> _left(Progress(40, 40)), _left(Progress(40, 40, study_left=7800.0))
    (('done', 'done'), ('done (study 2h10m left)', 'done'))
    """
    own = f"{duration(progress.left)} left" if progress.round < progress.rounds else "done"
    if progress.study_left is None:
        return own, own
    study = f"study {duration(progress.study_left)}"
    return (
        (f"{own} ({study})", f"{study} left")
        if progress.round < progress.rounds
        else (f"{own} ({study} left)", own)
    )


def _short(loss: float) -> str:
    """A loss in two places, or in two digits if it is small.

    >>> _short(2.3), _short(0.4321), _short(0.00321)
    ('2.30', '0.43', '0.0032')
    """
    return f"{loss:.2g}" if abs(loss) < 0.1 else f"{loss:.2f}"


def sentence(progress: Progress, headline: Headline = ACCURACY) -> str:
    """Round, test score, training loss, time left and speed."""
    parts = ProgressParts.of(progress, headline)
    return _line(parts.round, parts.score[0], parts.loss, parts.left[0], parts.speed)


def fitted(progress: Progress, which: RunLabel, width: int) -> str:
    """The progress and the name of the run in one line of at most ``width`` letters.

    Round and time left come first; no word is broken.
    """
    lines = list(_lines(ProgressParts.of(progress, which.headline), which))
    return next((line for line in lines if len(line) <= width), lines[-1])


def _lines(parts: ProgressParts, which: RunLabel) -> Iterator[str]:
    """Possible lines, from the longest to the shortest."""
    count = f"[{which.place}/{which.total}]" if which.total > 1 else ""
    names, (score, short, bare), (left, least) = list(which.names()), parts.score, parts.left
    for name in names:
        yield _line(count, parts.round, score, parts.loss, left, parts.speed, name)
        yield _line(count, parts.round, score, parts.loss, left, name)
    for name in names:
        yield _line(count, parts.round, score, left, name)
    for name in names[2:]:
        yield _line(count, parts.round, short, left, name)
    yield _line(count, parts.round, score, left)
    yield _line(count, parts.round, short, left)
    yield _line(count, parts.round, short, least)
    yield _line(parts.round, short, left)
    yield _line(parts.round, short, least)
    yield _line(parts.round, bare, least)
    yield from (
        _line(count, parts.round, left),
        _line(parts.round, left),
        _line(parts.round, least),
        parts.round,
    )


def _line(*parts: str) -> str:
    return "  ".join(part for part in parts if part)
