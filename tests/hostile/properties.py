"""Property tests with fresh draws: `make test` draws the same every time, here a seed decides.

for verdict in properties(seed=0, count=3, scratch=scratch):
    ...
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

TESTS = Path(__file__).parents[1]


def property_tests() -> list[Path]:
    """The files that draw with hypothesis."""
    return sorted(
        path for path in TESTS.rglob("test_*.py") if "from hypothesis import" in path.read_text()
    )


def properties(
    seed: int, count: int, scratch: Path, files: list[Path] | None = None
) -> Iterator[str]:
    """What each property test comes to with each of ``count`` seeds: "held", or "FAILED" with its
    report."""
    for drawn in range(seed, seed + count):
        report = scratch / f"{drawn}.xml"
        fresh = (
            "--hypothesis-profile=fresh",
            f"--hypothesis-seed={drawn}",
            f"--junit-xml={report}",
        )
        words = (
            "-q",
            "-c",
            TESTS.parent / "pyproject.toml",  # also for files that are elsewhere
            "-p",
            "no:cacheprovider",
            "-m",
            "hypothesis",
            *fresh,
            *(files or property_tests()),
        )
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=TESTS.parent,
            capture_output=True,
            text=True,
        )
        verdicts = list(_verdicts(report, drawn)) if report.exists() else []
        yield from verdicts
        if done.returncode != 0 and not any(verdict.startswith("FAILED") for verdict in verdicts):
            yield f"FAILED: --hypothesis-seed={drawn}: pytest ended with {done.returncode}: {done.stdout}{done.stderr}"


def _verdicts(report: Path, seed: int) -> Iterator[str]:
    for case in ElementTree.parse(report).iter("testcase"):
        wrong = [found for found in case if found.tag in ("failure", "error")]
        name = f"{case.get('classname')}.{case.get('name')}"
        yield f"FAILED: {name} with --hypothesis-seed={seed}: {wrong[0].text}" if wrong else "held"
