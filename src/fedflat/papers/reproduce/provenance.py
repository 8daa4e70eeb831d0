"""Version and commit of fedflat, and the machine, for the files of a table."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import fedflat
from fedflat.experiments.run_folder.record import machine
from fedflat.version import __version__


def provenance() -> dict[str, Any]:
    """Return version, commit and machine."""
    return {"fedflat": __version__, "commit": commit(), **machine(), "processor_name": _processor()}


@cache
def commit() -> str | None:
    """Return the commit of the source, with a + if it was changed. None if it is not a checkout."""
    home = Path(fedflat.__file__).parent
    try:
        _git(home, "ls-files", "--error-unmatch", "version.py")
        changed = _git(home, "status", "--porcelain", "--", ".")
        return _git(home, "rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(home: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(home), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None
    )
