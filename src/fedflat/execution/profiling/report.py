"""A profile as a table for the terminal, as JSON, and in the file format of speedscope."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fedflat.execution.profiling.categories import CATEGORIES, START, seconds_in_categories
from fedflat.execution.profiling.sampler import Samples, StackFrame
from fedflat.text_table import aligned
from fedflat.version import __version__

SPEEDSCOPE = "profile.speedscope.json"
"""The file with all samples, in the run folder."""


@dataclass(frozen=True)
class Profile:
    """Samples of a run, as far as it got."""

    here: Samples
    """This process."""
    workers: tuple[Samples, ...] = ()
    """The worker processes that reported their samples."""
    rounds: int = 0
    """Rounds that were done while looking on."""
    folder: Path | None = field(default=None, compare=False)
    """The run's folder, if it has one: the files of the profile are there."""

    @cached_property
    def categories(self) -> dict[str, float]:
        """Seconds of this process in each category."""
        return seconds_in_categories(self.here)

    @cached_property
    def worker_categories(self) -> dict[str, float]:
        """Seconds of all workers together in each category."""
        return seconds_in_categories(*self.workers)

    @property
    def processes(self) -> dict[str, Samples]:
        """Every process by name."""
        return {"this process": self.here} | {
            f"worker {n}": one for n, one in enumerate(self.workers, 1)
        }


def shares(categories: dict[str, float]) -> dict[str, float]:
    """Each category's share of the time in rounds; starting and ending are apart and have none."""
    whole = math.fsum(seconds for category, seconds in categories.items() if category != START)
    return {
        category: seconds / whole if whole else 0.0
        for category, seconds in categories.items()
        if category != START
    }


def error(count: int) -> float:
    """How far a share may be off after so many samples, 19 times in 20: two standard errors of a
    share of one half.

    >>> error(10_000)
    0.01
    """
    return min(1.0, 1 / math.sqrt(count)) if count else 1.0


def text(profile: Profile) -> str:
    """A table of the time: categories with seconds, shares and seconds a round, and how far to
    believe them."""
    heads = ["category", "seconds", "share %", "s a round"]
    columns = [profile.categories]
    if profile.workers:
        heads += ["| workers: seconds", "share %", "s a round"]
        columns.append(profile.worker_categories)
    there = [category for category in CATEGORIES if any(column[category] for column in columns)]
    there.sort(
        key=lambda category: (category == START, -sum(column[category] for column in columns))
    )
    rows = [
        [
            category,
            *(cell for column in columns for cell in _cells(column, category, profile.rounds)),
        ]
        for category in there
    ]
    notes = [_precision("", profile.here)]
    if profile.workers:
        notes.append(_precision("In the workers ", *profile.workers))
    if profile.folder:
        notes.append(
            f"All samples: {profile.folder / SPEEDSCOPE}. Open it in https://www.speedscope.app or "
            "VS Code."
        )
    return "\n".join([_title(profile), "", aligned([heads, *rows]), "", *notes])


def _cells(categories: dict[str, float], category: str, rounds: int) -> list[str]:
    share = "" if category == START else f"{100 * shares(categories)[category]:.1f}"
    return [
        f"{categories[category]:.2f}",
        share,
        "" if category == START or not rounds else f"{categories[category] / rounds:.4f}",
    ]


def _title(profile: Profile) -> str:
    rounds = f"{profile.rounds} round{'' if profile.rounds == 1 else 's'}"
    if not profile.workers:
        pool = ""
    elif len(profile.workers) == 1:
        pool = "; one worker's time beside it"
    else:
        pool = f"; the time of {len(profile.workers)} workers, added up, beside it"
    return f"Where the time of {rounds} went, {profile.here.seconds:.1f} s{pool}:"


def _precision(where: str, *seen: Samples) -> str:
    count, seconds = sum(one.count for one in seen), sum(one.seconds for one in seen)
    if not count:
        return f"{where}0 samples were taken: it was over too soon. Profile a longer run."
    cost = 100 * sum(one.cost for one in seen) / seconds
    return (
        f"{where}{count:,} samples, one in {1000 * seconds / count:.1f} ms, took {cost:.2f} % of "
        f"the time. By chance a share is off by less than {100 * error(count):.1f} points, 19 "
        "times in 20."
    )


def profile_json(profile: Profile) -> str:
    """The categories as JSON."""

    def of(categories: dict[str, float], *seen: Samples) -> dict[str, object]:
        return {
            "seconds": categories,
            "shares": shares(categories),
            "samples": sum(one.count for one in seen),
            "error": error(sum(one.count for one in seen)),
            "cost": sum(one.cost for one in seen),
        }

    found: dict[str, object] = {
        "rounds": profile.rounds,
        "here": of(profile.categories, profile.here),
    }
    if profile.workers:
        found["workers"] = {
            "count": len(profile.workers),
            **of(profile.worker_categories, *profile.workers),
        }
    return json.dumps(found, indent=2)


def speedscope(profile: Profile, title: str) -> str:
    """All samples in speedscope's file format, with one profile for each process."""
    places: dict[StackFrame, int] = {}
    profiles = []
    for name, samples in profile.processes.items():
        stacks = {stack: seen.seconds for stack, seen in sorted(samples.stacks.items())}
        profiles.append(
            {
                "type": "sampled",
                "name": name,
                "unit": "seconds",
                "startValue": 0,
                "endValue": sum(stacks.values()),
                "samples": [
                    [places.setdefault(frame, len(places)) for frame in stack] for stack in stacks
                ],
                "weights": list(stacks.values()),
            }
        )
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "name": title,
            "exporter": f"fedflat {__version__}",
            "activeProfileIndex": 0,
            "shared": {"frames": [{"name": str(frame)} for frame in places]},
            "profiles": profiles,
        }
    )
