"""Texts, command lines, damaged run folders, property tests and kills in numbers, and one line for
each part.

make test-hostile                          everything, with a seed of its own, which is printed
make test-hostile HOSTILE_SEED=7           the same again
make test-hostile HOSTILE_PARTS=folders    one part, or several
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeVar

from hostile import texts
from hostile.folders import Ground, folders
from hostile.kills import kills
from hostile.options import check as check_options
from hostile.options import options
from hostile.properties import properties

COUNTS = {"texts": 25_000, "options": 2_000, "folders": 2_000, "properties": 3, "kills": 40}
SHOWN = 20
"""Failures of a part that are printed in full, at most."""
T = TypeVar("T")


def try_all(part: str, seed: int, count: int, scratch: Path) -> Iterator[str]:
    """What each trial of a part came to."""
    if part == "texts":
        return _checked(texts.texts(seed, count), texts.check)
    if part == "options":
        folder = scratch / "inside"
        folder.mkdir()
        output = {0: "accepted", 2: "refused"}
        return _checked(
            options(seed, count, folder), lambda words: output[check_options(words, folder)]
        )
    if part == "folders":
        return _checked(folders(seed, count), Ground(scratch).check)
    if part == "properties":
        return properties(seed, count, scratch)
    return kills(seed, count, scratch)


def _checked(trials: Iterable[T], check: Callable[[T], str]) -> Iterator[str]:
    for trial in trials:
        try:
            yield check(trial)
        except AssertionError as error:
            yield f"FAILED: {error}"


def main() -> int:
    """Try everything; 1 if something did not hold."""
    seed = int(os.environ.get("HOSTILE_SEED") or random.SystemRandom().randrange(10**6))
    print(f"seed {seed}: HOSTILE_SEED={seed} tries the same again", flush=True)
    failed = 0
    for part in os.environ.get("HOSTILE_PARTS", "").split() or COUNTS:
        scratch, begun = Path(mkdtemp(prefix="hostile-")), time.monotonic()
        seen: Counter[str] = Counter()
        for verdict in try_all(part, seed, COUNTS[part], scratch):
            word, _, why = verdict.partition(": ")
            seen[word] += 1
            if why and seen[word] <= SHOWN:
                print(verdict[:3000], file=sys.stderr, flush=True)
        failed += seen["FAILED"]
        messages = ", ".join(f"{number:,} {word}" for word, number in sorted(seen.items()))
        spent = time.monotonic() - begun
        print(f"{part}: {seen.total():,} tried, {messages}; seed {seed}, {spent:.0f} s", flush=True)
        shutil.rmtree(scratch, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
