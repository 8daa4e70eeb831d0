"""A run with a sampler beside it, and what becomes of its samples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedflat.execution.profiling.report import SPEEDSCOPE, Profile, profile_json, speedscope, text
from fedflat.execution.profiling.sampler import StackSampler
from fedflat.execution.profiling.worker_samples import tapping
from fedflat.files import write_file

Wanted = bool | Callable[[Profile], None]
"""Whether to profile; or to whom to give the profile. True prints it on standard error."""

Listener = Callable[[Any], None]


@contextmanager
def profiled(wanted: Wanted, folder: Path | None) -> Iterator[Callable[[Listener], Listener]]:
    """Profile a block; at its end, also after an error, write the profile into ``folder`` and pass
    it on.

    Yields a function that wraps a progress callback so that it also counts rounds.
    """
    if wanted is False:
        yield lambda listener: listener
        return
    rounds = 0

    def counted(listener: Listener) -> Listener:
        def count_round(progress: Any) -> None:
            nonlocal rounds
            rounds += bool(progress.round)
            listener(progress)

        return count_round

    sampler = StackSampler()
    with tapping() as workers:
        try:
            with sampler:
                yield counted
        finally:
            profile = Profile(sampler.samples(), tuple(workers), rounds, folder)
            if folder is not None:
                write_file(folder / "profile.json", profile_json(profile).encode())
                write_file(folder / SPEEDSCOPE, speedscope(profile, folder.name).encode())
            (_print if wanted is True else wanted)(profile)


def _print(profile: Profile) -> None:
    print(text(profile), file=sys.stderr)
