"""Cells of a paper's table, run again beside the paper's numbers, for ``fedflat reproduce``."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedflat.errors import SettingError, SpellingError, number, printable
from fedflat.papers.equal_work.grid import COLUMNS, NAME, cells, matching_cells
from fedflat.papers.equal_work.grid import listing as cell_listing
from fedflat.papers.reproduce.selection import Table, cells_of, find_table, with_references
from fedflat.registry.plugins import plugin_words

if TYPE_CHECKING:
    from fedflat.papers.reproduce.cells import TableCell
    from fedflat.papers.reproduce.plan import TablePlan


EQUAL_WORK = "flat/equal-gradients"
"""The table whose numbers are ours only: `fedflat.papers.equal_work`."""
FOOT = "`--cells` takes names like these, or patterns: 'cifar10-cnn-alpha0-{fedavg,fedgloss}' or '*-fedavg'."


def reproduce(args: Namespace) -> int:
    """List the cells, run them, or write the tables of finished runs."""
    if args.what == EQUAL_WORK:
        return equal_work(args)
    here = args.resume or (
        args.what if args.what and os.path.exists(Path(args.what) / "reproduce.json") else None
    )
    if here is None and args.what is None:
        raise SettingError(
            "reproduce: no table was given. Name one, such as fedgloss/table3, or --resume FOLDER."
        )
    adds = args.cells or args.add_average or args.flatness or args.target
    if here is not None and (adds or args.list or args.out):
        raise SettingError(
            "reproduce: --cells, --add-average, --flatness, --target, --list and --out need a "
            f"table, and {here} is a folder of runs. Name the table, with --out {here} to add to "
            "the folder."
        )
    if here is None and args.list:
        table = find_table(args.what)
        selected = table.matching_cells(args.cells) if args.cells else table.cells
        print(listing(table, _with_additions(selected, args)))
        return 0
    return _run(args, None if here is None else Path(here))


def listing(table: Table, cells: Sequence[TableCell]) -> str:
    width = max(len(cell.name) for cell in cells)
    lines = [
        f"{cell.name:<{width}}  {cell.figure:>13}  {cell.rounds:>6,} rounds  {cell.arguments['method']}"
        for cell in cells
    ]
    return "\n".join([f"{table.title}: numbers of {table.source}", *lines, "", FOOT])


def _run(args: Namespace, here: Path | None) -> int:
    from rich.console import Console

    from fedflat.papers.reproduce.export import names, write_tables
    from fedflat.papers.reproduce.live_table import grid
    from fedflat.papers.reproduce.plan import alone, open_plan
    from fedflat.papers.reproduce.verdict import lines

    _check_machine(args)
    if args.table:
        if here is None:
            raise SettingError(
                f"reproduce: --table needs a folder of runs, found {args.what!r}. Name one."
            )
        plan, failed = open_plan(here, reading=True), False
        problems = write_tables(plan)
    else:
        if here is None:
            find_table(args.what)  # before a folder is made for it
        folder = here or Path(args.out or f"runs/reproduce-{_word(args.what)}")
        with alone(folder):
            plan = _planned(args, here, folder)
            try:
                failed = _work(plan, args)
            finally:
                problems = write_tables(plan)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    if (
        args.table or args.quiet or not (console.is_terminal and sys.stderr.isatty())
    ):  # not on the screen yet
        console.print(grid(lines(plan), {}, console.width))
    for sentence in problems:
        print(printable(sentence), file=sys.stderr)
    if not args.quiet:
        drawn = " and ".join(
            ["table.md, .csv, .json", *(f"{name}.png, .svg" for name in names(lines(plan)))]
        )
        print(f"\n{drawn} are in {plan.folder}", file=sys.stderr)
    return 2 if failed else 0


def _planned(args: Namespace, here: Path | None, folder: Path) -> TablePlan:
    """The plan of the command, checked and written to the folder."""
    from fedflat.experiments.prepare import prepare
    from fedflat.papers.reproduce.plan import FILE, PlanRequest, new_plan, open_plan

    typed = shlex.join(["fedflat", *args.words])
    how_far = PlanRequest(_seeds(args.seeds), args.rounds, args.share, args.stretch, args.examples)
    if here is not None:
        plan = open_plan(here)
        more = how_far != PlanRequest()
        plan = (
            plan.added([entry.cell for entry in plan.entries], how_far, typed)
            if more
            else plan.with_command(typed)
        )
        plan = replace(plan, now=None)  # all runs of the folder
    else:
        table = find_table(args.what)
        plan = (
            open_plan(folder)
            if (folder / FILE).exists()
            else new_plan(folder, table.title, table.source)
        )
        cells = _with_additions(cells_of(table, args.cells), args)
        plan = plan.added(with_references(cells, table), how_far, typed)
    for job in plan.jobs:
        if not (folder / job.folder / "run.json").exists():
            prepare(job.experiment)
    plan.write()
    return plan


def _with_additions(selected: Sequence[TableCell], args: Namespace) -> list[TableCell]:
    """The selected cells, and those that ``--add-average``, ``--flatness`` and ``--target`` add."""
    cells = list(selected)
    cells += [cell.with_average(average) for average in args.add_average or [] for cell in cells]
    scored = [cell for cell in cells if not (cell.needs_target or cell.needs_curvature)]
    if not scored and (args.flatness or args.target):
        option = "--flatness" if args.flatness else "--target"
        raise SettingError(
            f"reproduce: {option} adds to cells that report a score, and none of the selected "
            f"cells does: {cells[0].name} reports {cells[0].measure}. Select the score's cell "
            f"too, or leave {option} out."
        )
    cells += [one.with_flatness(word, args.set) for word in args.flatness or [] for one in scored]
    cells += [one.with_target(goal) for goal in args.target or [] for one in scored]
    return cells


def _work(plan: TablePlan, args: Namespace) -> bool:
    """Run what is not finished; return whether a run failed."""
    from rich.console import Console

    from fedflat.execution.workers import cores
    from fedflat.papers.reproduce.live_table import LiveTable
    from fedflat.papers.reproduce.scheduler import RunScheduler

    if args.data_dir:
        os.environ["FEDFLAT_DATA"] = str(Path(args.data_dir).resolve())
    jobs = args.jobs or max(1, cores() // args.workers)
    several = RunScheduler(plan, jobs, args.workers, args.nice, args.checkpoint_every)
    console = Console(stderr=True, highlight=False, quiet=args.quiet)
    try:
        with LiveTable(several, console) as screen:
            several.work(plan.waiting(), screen.look)
    except KeyboardInterrupt:
        again = f"fedflat reproduce --resume {plan.folder}{plugin_words()}"
        print(f"\nCheckpoints were written. Continue with: {again}", file=sys.stderr)
        raise
    for folder, why in several.failed.items():
        print(printable(f"fedflat: error: {plan.folder / folder}: {why}"), file=sys.stderr)
    return bool(several.failed)


def _check_machine(args: Namespace) -> None:
    if args.jobs is not None:
        number("reproduce", "jobs", args.jobs, low=1, whole=True)
    number("reproduce", "workers", args.workers, low=1, whole=True)
    number("reproduce", "nice", args.nice, low=0, high=19, whole=True)
    number("reproduce", "checkpoint-every", args.checkpoint_every, low=0)


def _seeds(text: str | None) -> int | Sequence[int] | None:
    """The number of seeds, or a list: "3", "0,42"."""
    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers or len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise SpellingError(
            "--seeds must be a number of seeds (3) or a list (0,42; one seed: 42,), found "
            f"{text!r}."
        )
    return numbers if "," in text else numbers[0]


def _word(what: str) -> str:
    name = Path(what).stem if what.endswith((".toml", ".json")) else what
    return "".join(
        request if request.isalnum() or request in ".=-" else "-" for request in name
    ).strip("-.")


OPTIONS = ("add_average", "flatness", "target", "seeds", "rounds", "share", "stretch", "examples")
"""Options of `reproduce` that would make another table of it."""


def equal_work(args: Namespace) -> int:
    """Run what the options ask for."""
    given = [f"--{name.replace('_', '-')}" for name in OPTIONS if getattr(args, name)]
    if given:
        raise SettingError(
            f"reproduce: {NAME} has fixed seeds, rounds and measures. Leave out {', '.join(given)}."
        )
    if args.list:
        print(cell_listing(matching_cells(args.cells) if args.cells else cells()))
        return 0
    folder = Path(args.out or "runs/reproduce-flat-equal-gradients")
    if args.table:
        from fedflat.papers.equal_work.page import page

        print(page(folder), end="")
        return 0
    return _run_cell(args, folder)


def _run_cell(args: Namespace, folder: Path) -> int:
    if not args.cells:
        raise SettingError(
            f"reproduce: name cells of {NAME}, such as --cells '{next(iter(COLUMNS))}-*', or "
            "--cells '*' for all; --list lists them."
        )
    selected = matching_cells(args.cells)
    from fedflat.papers.equal_work.cell_run import run_cell
    from fedflat.papers.reproduce.plan import alone

    if args.data_dir:
        os.environ["FEDFLAT_DATA"] = str(Path(args.data_dir).resolve())
    os.nice(args.nice)

    def print_line(text: str) -> None:
        if not args.quiet:
            print(text, file=sys.stderr, flush=True)

    try:
        for cell in selected:
            with alone(folder / cell.name):
                path = run_cell(cell, folder, print_line, args.checkpoint_every)
            print(path, flush=True)
    except KeyboardInterrupt:
        print("\nCheckpoints were written. The same command continues.", file=sys.stderr)
        raise
    return 0
