"""Training, for ``fedflat run``, ``compare`` and ``resume``."""

from __future__ import annotations

import re
import sys
import time
from argparse import Namespace
from dataclasses import replace
from itertools import chain
from pathlib import Path
from shlex import quote
from shutil import get_terminal_size
from typing import Any

from fedflat.cli.preset_listing import beside, chosen, seeds_of, settings_of, too_short
from fedflat.composition.method import Method
from fedflat.data.cache import opened_once
from fedflat.errors import RunError, SettingError, printable_lines
from fedflat.execution.profiling.profiled import ProfileOption
from fedflat.execution.profiling.report import text
from fedflat.experiments.api import experiments
from fedflat.experiments.console import reporter_for
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.results.results import Result, Results
from fedflat.experiments.results.scenario import labelled, read_labels
from fedflat.experiments.results.summary import summarise
from fedflat.experiments.results.tables import table
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.run_folder.study_file import is_run, read_target, runs_in, write_target
from fedflat.experiments.study import Reporter, resume, run_many, run_one
from fedflat.files import Damaged, parse_json, read_bytes
from fedflat.registry.plugins import plugin_words
from fedflat.report import write_report
from fedflat.server.ledger import time_spent
from fedflat.settings.execution import MACHINE
from fedflat.settings.groups import SETTINGS
from fedflat.tasks.headline import Headline, common_target
from fedflat.text_table import size


def train_new(args: Namespace, methods: list[str]) -> int:
    """Run the methods of a command, then print the table of their results."""
    folder, results = _begin(args, methods)
    _conclude(results, args, folder)
    preset = chosen(args)
    if preset and not args.quiet:
        print(beside(preset, results, given_settings(args), args.stretch), file=sys.stderr)
    return 0


def train_on(args: Namespace) -> int:
    """Continue the run or the study in a folder, then print the table of its results."""
    folder = Path(args.folder)
    target = common_target(args.target, _headlines(folder))

    def work(reporter: Reporter) -> list[Result]:
        wishes: dict[str, Any] = {
            "record": args.record,
            "logger": args.logger,
            "profile": _profile(args, reporter),
        }
        for name in ("executor", "device", "devices"):
            if getattr(args, name) is not None:
                wishes[name] = getattr(args, name)
        return resume(
            folder,
            reporter=reporter,
            checkpoint_every=args.checkpoint_every,
            until=args.until,
            **wishes,
        )

    if target is not None and not is_run(folder):
        write_target(folder, target)
    _conclude(_stoppable(args, folder, work), args, folder)
    return 0


@opened_once()
def _begin(args: Namespace, methods: list[str]) -> tuple[Path, list[Result]]:
    preset = chosen(args)
    settings = settings_of(preset, given_settings(args), getattr(args, "stretch", False))
    methods = [settings.pop("method")] if preset else methods
    each = experiments(methods, settings.pop("on"), seeds_of(args, preset), **settings)
    labelled([repr(exp.method) for exp in each], read_labels(args.labels))  # before training
    target = common_target(args.target, (exp.headline for exp in each))
    config = ExecutionConfig(
        **{one.name: getattr(args, one.name) for one in MACHINE if one.typeable}
    )
    folder = Path(args.out) if args.out else fresh_folder(methods)
    short = [too_short(settings | {"method": method}, preset) for method in methods]

    def work(reporter: Reporter) -> list[Result]:
        for line in [*_preface(each, folder), *(f"  {sentence}" for sentence in short if sentence)]:
            reporter.note(line)
        wishes: dict[str, Any] = {
            "checkpoint_every": args.checkpoint_every,
            "profile": _profile(args, reporter),
        }
        if len(each) == 1:
            return [run_one(each[0], config, folder, reporter, **wishes)]
        return run_many(each, config, folder, reporter, target=target, **wishes)

    return folder, _stoppable(args, folder, work)


def _headlines(folder: Path) -> list[Headline]:
    try:
        return [read_record(run).headline for run in runs_in(folder)]
    except RunError:  # which `resume` reports
        return []


def _profile(args: Namespace, reporter: Reporter) -> ProfileOption:
    return (lambda profile: reporter.print_line(f"\n{text(profile)}\n")) if args.profile else False


def given_settings(args: Namespace) -> dict[str, Any]:
    """The settings that were given; the others have the defaults of `experiment`."""
    names = (one.name for one in SETTINGS if one.name != "seed")
    settings = {name: getattr(args, name) for name in names if hasattr(args, name)}
    return settings | _replay(args.replay)


def _replay(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        saved = parse_json(read_bytes(Path(path)))
        orders = saved.get("orders")
        orders = orders and [
            {int(client): batches for client, batches in given.items()} for given in orders
        ]
        return {"cohorts": saved["cohorts"], "orders": orders}
    except (OSError, ValueError, KeyError, AttributeError, TypeError, Damaged) as error:
        raise SettingError(
            f"--replay {path}: cannot be read ({error}). It must be JSON such as "
            '{"cohorts": [[0, 3], ...], "orders": [{"0": [[1, 2], [0]], "3": ...}, ...]}; "orders" is optional.'
        ) from None


def _preface(each: list[Experiment], folder: Path) -> list[str]:
    """A text with the runs to be made, and the pieces of each method in their order, with those of
    the local settings."""
    stacks = {f"  {exp.method}": f"    {_whole(exp).stack()}" for exp in each}
    return [
        f"data {each[0].on}, model {each[0].model}, run folder {folder}",
        *chain.from_iterable(stacks.items()),
    ]


def _whole(exp: Experiment) -> Method:
    """The method with the pieces of the local settings."""
    return replace(exp.method, client=exp.pieces())


def _stoppable(args: Namespace, folder: Path, work: Any) -> list[Result]:
    """Do the work with progress; after Ctrl-C print how to continue."""
    before = _checkpoints(folder)
    try:
        with reporter_for(quiet=args.quiet) as reporter:
            return work(reporter)  # type: ignore[no-any-return]
    except KeyboardInterrupt:
        if folder.exists():
            again = f"fedflat resume {quote(str(folder))}{plugin_words()}"
            found = _checkpoints(folder)
            what = (
                "A checkpoint"
                if found != before
                else "No new checkpoint"
                if found
                else "No checkpoint"
            )
            print(f"{what} was written. Continue with: {again}", file=sys.stderr)
        else:
            print("Nothing was written.", file=sys.stderr)
        raise


def _checkpoints(folder: Path) -> list[tuple[Path, list[int]]]:
    """The runs in a folder that have checkpoints, and the rounds of these."""
    try:
        found = [(run, Store(run / "checkpoint").rounds()) for run in runs_in(folder)]
    except RunError:  # which the command reports
        return []
    return [(run, rounds) for run, rounds in found if rounds]


def _conclude(results: list[Result], args: Namespace, folder: Path) -> None:
    labels = read_labels(args.labels)
    study = (folder / "study.json").exists()
    target = common_target(args.target, (result.headline for result in results))
    if target is None and study:
        target = read_target(folder)
    if target is None:
        target = Results(results).target_of_first()
    last = min(results[0].last, results[0].rounds)
    room = get_terminal_size().columns if sys.stdout.isatty() else None
    named = Results(results).labelled(labels)
    own = summarise(named, target)
    print(printable_lines(table(own, target, last, args.style, room, prose=[*labels.values()])))
    if not args.quiet:
        sent = sum(r.ledger.sent for r in results)
        spent = time_spent([result.ledger for result in results])
        print(f"\n{spent}; {size(sent)} sent. Results are in {folder}", file=sys.stderr)
    if study:
        page = folder / "report.html"
        write_report([folder], page, labels=labels)
        if not args.quiet:
            print(f"Report: {page}", file=sys.stderr)


def fresh_folder(methods: list[str]) -> Path:
    word = re.sub(r"\W+", "-", methods[0].partition("(")[0].partition("+")[0].strip()) or "run"
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{word}{'-and-others' if len(methods) > 1 else ''}"
    place, extra = Path("runs") / name, 1
    while place.exists():
        extra += 1
        place = Path("runs") / f"{name}-{extra}"
    return place
