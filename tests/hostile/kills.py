"""Real runs killed at moments drawn by a seed and taken up again, until they end: the same bytes as
never stopped.

    for verdict in kills(seed=0, count=40, scratch=scratch):
        ...

Half of the moments are somewhere between the first import and the end, half just after a checkpoint
was written.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from experiments.killing import begin_or_go_on, kill_9, same_as_never_stopped

WAYS = {
    "in-process": ("--threads", "1"),
    "workers": ("--workers", "2"),
    "stacked": ("--executor", "stacked", "--threads", "1"),
    "spilled": ("--threads", "1", "--state-memory", "0"),
}
"""Executors, and whether client state is spilled."""
MOST = 4
"""Kills of one run."""
LATEST = 8.0
"""Seconds after which a run is killed, at most, if not by its checkpoints."""


def kills(seed: int, count: int, scratch: Path) -> Iterator[str]:
    """The way of each of ``count`` kills that hit a run at work; "FAILED" for a run that ended
    otherwise."""
    rng = random.Random(seed)
    left = {way: count // len(WAYS) + (place < count % len(WAYS)) for place, way in enumerate(WAYS)}
    for way, number in left.items():
        place = 0
        while number:
            place += 1
            try:
                hits = _killed(rng, scratch / f"{way}-{place}", way, min(number, MOST))
            except AssertionError as error:
                yield f"FAILED: {error}"
                hits = 1
            number -= hits
            yield from [way] * hits


def _killed(rng: random.Random, folder: Path, way: str, most: int) -> int:
    """Begin a run, kill it up to ``most`` times, let it end; how many kills hit it, or an
    AssertionError."""
    hits = 0
    for _ in range(rng.randrange(1, most + 1)):
        at_once = rng.random() < 0.5
        delay = rng.uniform(0, LATEST if at_once else 0.3)
        hit, errors = kill_9(folder, delay, *WAYS[way], at_once=at_once)
        assert "Traceback" not in errors, f"{way}: {errors}"
        hits += hit
    end = begin_or_go_on(folder, *WAYS[way])
    _, errors = end.communicate(timeout=300)
    assert end.returncode == 0, f"{way}: status {end.returncode}: {errors}"
    assert same_as_never_stopped(folder, "stacked" if way == "stacked" else "auto"), (
        f"{way}: other bytes in {folder}"
    )
    return hits
