"""Sweeps, for ``fedflat sweep``."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from shlex import quote
from shutil import get_terminal_size

from fedflat.cli.preset_listing import seeds_of, settings_of
from fedflat.cli.training import fresh_folder, given_settings
from fedflat.data.cache import opened_once
from fedflat.errors import SettingError, printable, printable_lines
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.results.results import Results
from fedflat.experiments.results.scenario import Labels, read_labels
from fedflat.experiments.results.summary import summarise
from fedflat.experiments.results.tables import table
from fedflat.experiments.run_folder.study_file import read_target
from fedflat.papers.presets import find
from fedflat.registry.plugins import plugin_words
from fedflat.report import write_report
from fedflat.settings.execution import MACHINE
from fedflat.sweeps.sweep import Sweep, begin, finish, planned, search_of
from fedflat.tasks.headline import common_target


@opened_once()
def train_sweep(args: Namespace) -> int:
    """Run a sweep or continue one, then print its tables and draw its heat maps."""
    labels = read_labels(args.labels)
    note = (lambda text: None) if args.quiet else (lambda text: print(text, file=sys.stderr))
    if args.resume:
        if args.methods or args.out or args.preset:
            raise SettingError(
                "sweep: --resume continues a folder as it was begun. Leave out METHOD, --preset and --out."
            )
        folder = Path(args.resume)
    else:
        folder = _begin(args, note)
    try:
        done = finish(folder, args.jobs, args.checkpoint_every, note)
    except KeyboardInterrupt:
        again = f"fedflat sweep --resume {quote(str(folder))}{plugin_words()}"
        print(f"\nCheckpoints were written. Continue with: {again}", file=sys.stderr)
        raise
    _conclude(done, args, folder, labels)
    return 0


def _begin(args: Namespace, note: object) -> Path:
    preset = None if args.preset is None else find(args.preset)
    settings = settings_of(preset, given_settings(args), False)
    own = settings.pop("method", None)
    args.methods = args.methods or ([own] if own else [])
    each, tried = planned(
        args.methods, settings, seeds_of(args, preset), args.search, args.trials, args.search_seed
    )
    config = ExecutionConfig(
        **{one.name: getattr(args, one.name) for one in MACHINE if one.typeable}
    )
    target = common_target(args.target, (exp.headline for exp in each))
    folder = Path(args.out) if args.out else fresh_folder(args.methods)
    wanted = None
    if args.search == "optuna":
        wanted = search_of(
            args.methods, settings, seeds_of(args, preset), args.trials, args.search_seed
        )
    begin(each, tried, config, folder, target, wanted)
    if not args.quiet:
        first = "" if wanted is None else " at first"
        print(f"{len(each)} runs{first}, run folder {folder}", file=sys.stderr)
    return folder


def _conclude(done: Sweep, args: Namespace, folder: Path, labels: Labels) -> None:
    if args.every:
        print(_table(done.results, args, read_target(folder), labels), end="\n\n")
    print(_table(done.chosen, args, read_target(folder), labels))
    if args.style == "text":
        print("\nChosen by the mean score on the validation set, among the settings tried:")
        for family, trial in done.best.items():
            values = ", ".join(f"{name}={trial.values[name]}" for name in done.axes(family))
            score = trial.runs[0].headline.with_unit(trial.score)
            print(printable(f"  {family}: {values or 'one setting'}; validation {score}"))
    drawn = []
    for place, family in enumerate(done.best, 1):
        if len(done.axes(family)) > 1:
            file = folder / f"heat-map-{place:02d}.png"
            done.heat_map(family).save(file)
            done.heat_map(family).save(file.with_suffix(".pdf"))
            drawn.append(file)
    write_report([folder], folder / "report.html", labels=labels)
    if not args.quiet:
        for file in drawn:
            print(f"Heat map: {file} and .pdf", file=sys.stderr)
        print(f"Results are in {folder}; report: {folder / 'report.html'}", file=sys.stderr)


def _table(results: Results, args: Namespace, target: float | None, labels: Labels) -> str:
    last = min(results[0].last, results[0].rounds)
    room = get_terminal_size().columns if sys.stdout.isatty() else None
    own = summarise(results.labelled(labels), target)
    return printable_lines(table(own, target, last, args.style, room, prose=[*labels.values()]))
