"""Profile a run: sample its stacks, then write and print the profile."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedflat.execution.profiling.report import SPEEDSCOPE, Profile, profile_json, speedscope, text
from fedflat.execution.profiling.sampler import StackSampler
from fedflat.execution.profiling.worker_samples import collecting_samples
from fedflat.files import write_file

ProfileOption = bool | Callable[[Profile], None]
"""False: no profile. True: print it on standard error. A function is called with it."""

Listener = Callable[[Any], None]


@contextmanager
def profiled(
    wanted: ProfileOption, folder: Path | None
) -> Iterator[Callable[[Listener], Listener]]:
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
    with collecting_samples() as workers:
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
