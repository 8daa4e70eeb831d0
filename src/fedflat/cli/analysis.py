"""Analyses of runs, for ``fedflat analyse``."""

from __future__ import annotations

import math
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fedflat.analysis import analyses as see
from fedflat.analysis.analyses import AnalysisResult, CurvatureOptions, Scope, Tell
from fedflat.analysis.loaded_run import LoadedRun, loaded_runs
from fedflat.analysis.pictures import analyse_confusion, analyse_pictures
from fedflat.analysis.recovery import analyse_recovery
from fedflat.analysis.styles import analyse_styles
from fedflat.errors import FedflatError, printable
from fedflat.experiments.console import duration
from fedflat.experiments.results.tables import size
from fedflat.experiments.run_folder.plugins_needed import changed
from fedflat.flatness.budget import MEMORY, AnalysisCost
from fedflat.kernels.allocator import keep_memory

PAUSE = 10.0
"""Seconds between two lines of progress where there is no terminal."""
LARGE, KEPT = 5 * 10**8, 2**24
"""Bytes: curvature that takes more than the first gives tensors larger than the second back to the
system."""


def analyse(args: Namespace) -> int:
    """Compute what the command names; print a line for each result."""
    keep_memory()
    runs = loaded_runs([Path(folder) for folder in args.folders], _warn)
    look = Scope(model=args.model, where=args.set, examples=args.examples, seed=args.seed)
    jobs = list(_jobs(args, runs, look))
    for run in runs:
        for sentence in filter(
            None, [run.unfinished, *changed(run.facts["experiment"].get("plugins", ()))]
        ):
            _warn(sentence)
    trouble = 0
    for title, job in jobs:
        try:
            with _progress(title, args.quiet) as on_progress:
                found = job(on_progress)
        except FedflatError as error:
            _warn(f"fedflat: {title}: {error}")
            trouble = 2
            continue
        print(printable(f"{title}: {_words(found)}"))
    return trouble


def _warn(sentence: str) -> None:
    print(printable(sentence), file=sys.stderr)


def _jobs(
    args: Namespace, runs: list[LoadedRun], look: Scope
) -> Iterator[tuple[str, Callable[[Tell], AnalysisResult]]]:
    """The analyses that the command names: a title and a function for each."""
    closely = CurvatureOptions(
        k=args.k,
        power=args.power,
        probes=args.probes,
        method=args.trace,
        density=args.density,
        layers=args.layers,
        rho=args.rho,
    )
    most = MEMORY if args.memory is None else args.memory
    for run in runs:
        wanted = {
            "curvature": args.curvature
            and partial(
                see.analyse_curvature,
                run,
                look,
                closely=closely,
                memory=most,
                warn=_warner(args, run, most),
            ),
            "surface": args.surface
            and partial(see.analyse_surface, run, look, points=args.points, span=args.span),
            "local against global": args.local_global
            and partial(see.analyse_local_global, run, look, clients=args.clients),
            "corruptions": args.corruptions is not None
            and partial(see.analyse_corruptions, run, look, kinds=args.corruptions or None),
            "recovery": args.recovered and partial(analyse_recovery, run),
            "plane of clients": args.plane == ["clients"]
            and partial(see.analyse_clients_plane, run, look),
            "pictures": args.pictures is not None
            and partial(analyse_pictures, run, look, each=args.pictures),
            "confusion": args.confusion and partial(analyse_confusion, run, look),
            "styles": args.styles and partial(analyse_styles, run, look),
            "partition": partial(see.analyse_partition, run),
        }
        yield from ((f"{run.folder}: {what}", job) for what, job in wanted.items() if job)
    if args.plane is not None and args.plane != ["clients"]:
        three = args.plane or [str(run.folder) for run in runs]
        see.three_models(three)  # refuse what cannot be drawn before anything else is computed
        yield f"plane of {', '.join(three)}", partial(see.analyse_plane, three, look)
    if args.interpolate is not None:
        a, b = args.interpolate
        yield f"line from {b} to {a}", partial(see.analyse_line, a, b, look)


def _warner(args: Namespace, run: LoadedRun, memory: int) -> Callable[[AnalysisCost], None]:
    """A function that prints the cost of curvature, and prefers less memory to less time where it
    is large."""

    def warn(cost: AnalysisCost) -> None:
        if cost.memory > LARGE:
            keep_memory(KEPT)
        if not args.quiet:
            _warn(
                f"{run.folder}: curvature: about {size(cost.memory)} of memory beside program and data (limit "
                f"{size(memory)}: --memory) and {duration(cost.seconds)}, for {cost.products:,.0f} products with "
                f"the Hessian of {cost.parameters:,} parameters on {cost.examples:,} examples"
            )

    return warn


def _words(found: AnalysisResult) -> str:
    """The result in one line."""
    result, known = found.result, "" if found.fresh else " (computed before)"
    if found.kind == "curvature":
        trace, subsample = result.get("trace", {}), result.get("subsample", {})
        parts = [f"loss {_number(result.get('loss'), '.4f')}"]
        if "examples" in result and "of" in result:
            parts[0] += f" on {result['examples']:,} of {result['of']:,} examples"
        if "lambda_1" in result:
            off = (
                f" ± {_number(subsample['lambda_1_spread'], '.2g')}"
                if "lambda_1_spread" in subsample
                else ""
            )
            parts.append(f"lambda_1 {_number(result['lambda_1'])}{off}")
        if "ratio" in result:
            parts.append(f"lambda_1/lambda_5 {_number(result['ratio'], '.2f')}")
        if trace:
            parts.append(
                f"trace {_number(trace.get('mean'))} ± {_number(trace.get('stderr'), '.2g')}"
            )
        text = ", ".join(parts) + _explained(
            "lambda_1" in result and "lambda_1_spread" in subsample, bool(trace)
        )
    elif found.kind == "local_global":
        own, abroad = (_number(result.get(name)) for name in ("local", "global"))
        text = f"lambda_1 {own} on the clients' own data, {abroad} on everyone's data"
    elif found.kind == "corruptions":
        judged = found.headline
        values = [result.get(name) for name in ("clean", "mean")]
        clean, mean = (judged.with_unit(math.nan if value is None else value) for value in values)
        text = f"{judged.label} {clean} clean, {mean} over all corruptions ({result.get('source')})"
    elif found.kind == "recovery":
        distance, test, none = (
            _number(result.get(name)) for name in ("distance", "test", "untrained")
        )
        text = (
            f"Fréchet distance {distance} of the images that client {result['client']} recovered in "
            f"{result['visits']} rounds (test images: {test}, untrained generator: {none}; higher is safer), features: "
            f"{result['features']}"
        )
    elif found.kind == "interpolate":
        text = f"barrier {result.get('barrier')}"
    elif found.kind in ("pictures", "confusion"):
        text = f"{len(result['names'])} classes on {', '.join(result['sets'])}"
    elif found.kind == "styles":
        clusters, apart = (
            len({one["cluster"] for one in result["clients"]}),
            _number(result.get("silhouette"), ".2f"),
        )
        made = result.get("groups")
        whose = (
            f"the run's own, groups={made}"
            if made
            else "chosen by the silhouette, since the run has no groups"
        )
        text = (
            f"{len(result['clients'])} clients in {clusters} clusters ({whose}), silhouette {apart}"
        )
    elif found.kind == "partition":
        text = f"{_number(result.get('clients'), ',')} clients"
    else:
        text = f"{len(result['x'])} x {len(result['y'])} points"
    return text + known


def _explained(top: bool, trace: bool) -> str:
    """What the numbers behind ± are."""
    parts = ["of lambda_1: standard deviation over disjoint parts of the examples"] if top else []
    parts += ["of the trace: standard error over random vectors"] if trace else []
    return f" (± {'; '.join(parts)})" if parts else ""


def _number(number: float | None, config: str = ".4g") -> str:
    """A number as text; None stands for NaN."""
    return format(math.nan if number is None else number, config)


@contextmanager
def _progress(title: str, quiet: bool) -> Iterator[Tell]:
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
        yield _plain(console, title)


def _plain(console: Console, title: str) -> Tell:
    begun = last = time.monotonic()

    def tell(done: float, total: float, what: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PAUSE and done:
            last = now
            left = (now - begun) * (total - done) / done
            line = f"{title}: {what}, {100 * done / total:.0f} %, {left:.0f}s left"
            console.print(line, markup=False, soft_wrap=True)

    return tell
