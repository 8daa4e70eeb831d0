"""How long commands take that train nothing: help, lists, the report and the table of a run.

    python benchmarks/startup.py runs/first --repeats 15
    python benchmarks/startup.py runs/first --source ../old/src src

The commands take turns, each in a new process, after a first turn that is not counted and that
writes the bytecode. Prints the median and the range of the wall time of each command, and that of
Python itself. Several ``--source`` folders of fedflat are compared within each turn.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def commands(run: Path, page: Path) -> dict[str, list[str]]:
    """The commands by name; the report is written to ``page``."""
    named = [["--help"], ["list"], ["list", "methods"], ["list", "presets"]]
    of_run = {"report": ["report", str(run), "--out", str(page)], "table": ["table", str(run)]}
    return {" ".join(words): words for words in named} | of_run


def seconds(words: list[str], source: Path) -> float:
    """The wall time of one process; an error if it fails."""
    env = {**os.environ, "PYTHONPATH": str(source.resolve())}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    begun = time.perf_counter()
    subprocess.run([sys.executable, *words], capture_output=True, check=True, env=env)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="folder of a finished run")
    parser.add_argument("--source", type=Path, nargs="+", default=[SOURCE])
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asked = {
            f"{source}: fedflat {name}": (["-m", "fedflat", *words], source)
            for name, words in commands(args.run, Path(folder) / "report.html").items()
            for source in args.source
        }
        asked["python -c pass"] = (["-c", "pass"], args.source[0])
        times: dict[str, list[float]] = {name: [] for name in asked}
        for turn in range(args.repeats + 1):
            for name, (words, source) in asked.items():
                took = seconds(words, source)
                times[name] += [took] if turn else []
    for name, found in times.items():
        print(f"{name}: {statistics.median(found):.3f} s ({min(found):.3f} to {max(found):.3f})")


if __name__ == "__main__":
    main()
