"""Run analyses of runs: print progress and a line for each result."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fedflat.analysis.analysis import Analysis, OnProgress, Scope, analyses
from fedflat.analysis.loaded_run import LoadedRun, loaded_runs
from fedflat.errors import FedflatError, printable
from fedflat.experiments.run_folder.plugins_needed import changed
from fedflat.flatness.budget import MEMORY, AnalysisCost
from fedflat.kernels.allocator import keep_memory
from fedflat.registry.specs import parse_list
from fedflat.settings.setting import settings_of
from fedflat.text_table import duration, size

PAUSE = 10.0
"""Seconds between two lines of progress where there is no terminal."""
LARGE, RETAINED = 5 * 10**8, 2**24
"""Bytes: an analysis that needs more than the first returns tensors larger than the second to the
system."""


def analyse(args: Namespace) -> int:
    """Compute the analyses that the command names; print a line for each result."""
    keep_memory()
    runs = loaded_runs([Path(folder) for folder in args.folders], _warn)
    scope = Scope(model=args.model, where=args.set, examples=args.examples, seed=args.seed)
    jobs = [job for analysis in wanted(args) for job in analysis.jobs(runs)]
    for run in runs:
        for sentence in filter(None, [run.unfinished, *changed(run.record.experiment.plugins)]):
            _warn(sentence)
    status = 0
    for title, analysis, run in jobs:
        try:
            with _progress(title, args.quiet) as on_progress:
                found = analysis.analyse(run, scope, on_progress, _cost_warning(args, run))
        except FedflatError as error:
            _warn(f"fedflat: {title}: {error}")
            status = 2
            continue
        known = "" if found.fresh else " (computed before)"
        print(printable(f"{title}: {analysis.sentence(found.result, found.headline)}{known}"))
    return status


def wanted(args: Namespace) -> Iterator[Analysis]:
    """The analyses whose options were given, those of ``--analyses``, and those always computed."""
    for kind, analysis in analyses(plugins=False).items():
        values = True if analysis.always else getattr(args, f"analysis_{kind}", None)
        if values is not None:
            options = {one.path[-1]: one for one in settings_of(analysis)}
            given = {
                name: getattr(args, one.name)
                for name, one in options.items()
                if getattr(args, one.name, None) is not None
            }
            yield analysis.from_values(values, given)
    if args.analyses is not None:
        yield from parse_list(args.analyses, "analysis")


def _warn(sentence: str) -> None:
    print(printable(sentence), file=sys.stderr)


def _cost_warning(args: Namespace, run: LoadedRun) -> Callable[[AnalysisCost], None]:
    """A function that prints the cost of an analysis, and prefers less memory to less time where it
    is large."""

    def warn(cost: AnalysisCost) -> None:
        if cost.memory > LARGE:
            keep_memory(RETAINED)
        if not args.quiet:
            limit = size(MEMORY if args.memory is None else args.memory)
            _warn(
                f"{run.folder}: curvature: about {size(cost.memory)} of memory beside program and "
                f"data (limit {limit}: --memory) and {duration(cost.seconds)}, for "
                f"{cost.products:,.0f} products with the Hessian of {cost.parameters:,} "
                f"parameters on {cost.examples:,} examples"
            )

    return warn


@contextmanager
def _progress(title: str, quiet: bool) -> Iterator[OnProgress]:
    """A progress callback: a bar with the remaining time on a terminal, occasional lines
    elsewhere."""
    title = printable(title)
    console = Console(stderr=True, highlight=False)
    if quiet:
        yield lambda done, total, what: None
    elif console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            line = bar.add_task(title.replace("[", r"\["))
            yield lambda done, total, what: bar.update(line, completed=done, total=total)
    else:
        yield _occasional_lines(console, title)


def _occasional_lines(console: Console, title: str) -> OnProgress:
    begun = last = time.monotonic()

    def on_progress(done: float, total: float, what: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PAUSE and done:
            last = now
            left = (now - begun) * (total - done) / done
            line = f"{title}: {what}, {100 * done / total:.0f} %, {left:.0f}s left"
            console.print(line, markup=False, soft_wrap=True)

    return on_progress
