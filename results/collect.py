"""Copies what is small of a folder of runs into this one: settings, metrics, what was recorded,
groups, tables; no models, no data.

    python results/collect.py runs/a-fedgloss-table3 fedgloss-table3

What is copied is a folder of runs like any other, to be read and not gone on with: `fedflat report`
takes it, and `fedflat reproduce FOLDER --table` writes its table anew. Folders of the machine that
made the runs are left out, so each run, its groups and the table's cells get new digests; what has
no valid digest is not copied. Given again it copies anew, for runs that have gone on; a table's
other runs, made elsewhere or before, stay beside them.
"""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedflat.experiments.run_folder.groups import read_groups, write_groups
from fedflat.experiments.run_folder.jsonl_log import LOGS
from fedflat.experiments.run_folder.record import RunRecord, identity, read_record, read_rows
from fedflat.experiments.run_folder.study_file import PlannedRun, StudyPlan, runs_in
from fedflat.papers.reproduce.export import write_tables
from fedflat.papers.reproduce.plan import FILE, TablePlan, open_plan

HERE = Path(__file__).parent
FOLDERS = re.compile(r" --(?:out|data-dir|resume) (?:'[^']*'|\S+)")
"""Words of a command that name folders of the machine."""
LARGE = ("table.json", "*.png")
"""What of a table need not be kept: metrics and drawings in SVG have it."""


def collect(runs: Path, into: Path) -> None:
    """Copy them."""
    for run in runs_in(runs):
        copy(into / run.relative_to(runs), run)
    study(into)
    if (runs / FILE).exists():
        tables(open_plan(runs, reading=True), into)
    print(into, sum(path.stat().st_size for path in into.rglob("*") if path.is_file()), "bytes")


def copy(into: Path, run: Path) -> None:
    """Write a run without its models, signed anew."""
    record = read_record(run)
    rows = {name: read_rows(run, name, record) for name in LOGS}
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    saved = placeless(record.as_json())
    new = RunRecord.from_json({**saved, "identity": identity(saved)})
    logs = {name: new.open_log(into, name) for name in LOGS}
    for name, log in logs.items():
        for row in rows[name]:
            log.append(row)
    if (groups := read_groups(run, record.identity)) is not None:
        write_groups(into, new.identity, groups)
    if new.end is not None:
        ends = {name: log.mark for name, log in logs.items()}
        new = new.ended(new.status, replace(new.end, logs=ends))
    new.write(into)


def placeless(value: Any) -> Any:
    """Settings without the folders they were read from."""
    if isinstance(value, dict):
        return {key: placeless(one) for key, one in value.items() if key != "place"}
    return [placeless(one) for one in value] if isinstance(value, list) else value


def study(into: Path) -> None:
    """Write down which runs are there."""
    found = {path.parent: read_record(path.parent) for path in into.glob("*/seed-*/run.json")}
    runs = [PlannedRun(str(run.relative_to(into)), found[run].experiment) for run in sorted(found)]
    StudyPlan(tuple(runs), found[min(found)].execution, None).write(into)


def tables(plan: TablePlan, into: Path) -> None:
    """Put the cells of a table beside those that are there, and write it."""
    commands = [{**one, "command": FOLDERS.sub("", one["command"])} for one in plan.commands]
    known = open_plan(into, reading=True) if (into / FILE).exists() else replace(plan, commands=[])
    cells = {entry.cell.name: entry for entry in [*known.entries, *plan.entries]}
    made = {(one["when"], one["command"]): one for one in [*known.commands, *commands]}
    both = replace(
        plan,
        folder=into,
        entries=list(cells.values()),
        commands=[made[key] for key in sorted(made)],
    )
    both.write_cells()
    for sentence in write_tables(both):
        print(sentence)
    for path in (path for pattern in LARGE for path in into.glob(pattern)):
        path.unlink()


if __name__ == "__main__":
    if len(sys.argv) != 3 or not Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    collect(Path(sys.argv[1]), HERE / sys.argv[2])
