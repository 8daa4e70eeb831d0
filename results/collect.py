"""Copies what is small of a folder of runs into this one: settings, metrics, groups, tables; no
models, no data.

    python results/collect.py runs/a-fedgloss-table3 fedgloss-table3

What is copied is a folder of runs like any other, to be read and not gone on with: `fedflat report`
takes it, and `fedflat reproduce FOLDER --table` writes its table anew. Folders of the machine that
made the runs are left out, so each run, its groups and the table's cells get new digests; what has
no valid digest is not copied. Given again it copies anew, for runs that have gone on; a table's
other runs, made elsewhere or before, stay beside them.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from fedflat.experiments.run_folder.groups import read_groups, write_groups
from fedflat.experiments.run_folder.jsonl_log import LOGS, JsonlLog, Row
from fedflat.experiments.run_folder.record import (
    ended,
    headline_of,
    identity,
    read_facts,
    read_rows,
)
from fedflat.experiments.run_folder.signed import signed
from fedflat.experiments.run_folder.study_file import runs_in
from fedflat.papers.reproduce.export import write_tables
from fedflat.papers.reproduce.plan import FILE, open_plan, plan_facts
from fedflat.version import __version__

HERE = Path(__file__).parent
FOLDERS = re.compile(r" --(?:out|data-dir|resume) (?:'[^']*'|\S+)")
"""Words of a command that name folders of the machine."""
LARGE = ("table.json", "*.png")
"""What of a table need not be kept: metrics and drawings in SVG have it."""


def collect(runs: Path, into: Path) -> None:
    """Copy them."""
    for run in runs_in(runs):
        facts = read_facts(run)
        copy(into / run.relative_to(runs), facts, read_rows(run, facts=facts), run)
    study(into)
    if (runs / FILE).exists():
        tables(plan_facts(runs), into)
    print(into, sum(path.stat().st_size for path in into.rglob("*") if path.is_file()), "bytes")


def copy(into: Path, facts: dict[str, Any], rows: list[Row], run: Path) -> None:
    """Write a run with what is known of it here, signed anew."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    new = placeless(facts)
    new["identity"] = identity(new)
    logs = {name: JsonlLog(into, name, new["identity"], [headline_of(facts).name]) for name in LOGS}
    for row in rows:
        logs["metrics"].append(row)
    if (groups := read_groups(run, facts["identity"])) is not None:
        write_groups(into, new["identity"], groups)
    if (end := new.get("end")) is not None:
        end |= {name: log.mark._asdict() for name, log in logs.items()}
        del end["digest"]
        new = ended(new, new["status"], end)
    (into / "run.json").write_text(json.dumps(new, indent=1) + "\n")


def placeless(value: Any) -> Any:
    """Settings without the folders they were read from."""
    if isinstance(value, dict):
        return {key: placeless(one) for key, one in value.items() if key != "place"}
    return [placeless(one) for one in value] if isinstance(value, list) else value


def study(into: Path) -> None:
    """Write down which runs are there."""
    found = {
        path.parent: json.loads(path.read_text()) for path in sorted(into.glob("*/seed-*/run.json"))
    }
    runs = [
        {"folder": str(run.relative_to(into)), "experiment": facts["experiment"]}
        for run, facts in found.items()
    ]
    plan = {
        "fedflat": __version__,
        "runs": runs,
        "how": next(iter(found.values()))["how"],
        "place": None,
    }
    (into / "study.json").write_text(json.dumps(signed(plan), indent=1) + "\n")


def tables(plan: dict[str, Any], into: Path) -> None:
    """Put the cells of a table beside those that are there, and write it."""
    for one in plan["commands"]:
        one["command"] = FOLDERS.sub("", one["command"])
    known = plan_facts(into) if (into / FILE).exists() else plan
    plan["entries"] = list(
        {one["cell"]["name"]: one for one in [*known["entries"], *plan["entries"]]}.values()
    )
    made = {(one["when"], one["command"]): one for one in [*known["commands"], *plan["commands"]]}
    plan["commands"] = [made[key] for key in sorted(made)]
    (into / FILE).write_text(json.dumps(signed(plan), indent=1) + "\n")
    for sentence in write_tables(open_plan(into, reading=True)):
        print(sentence)
    for path in (path for pattern in LARGE for path in into.glob(pattern)):
        path.unlink()


if __name__ == "__main__":
    if len(sys.argv) != 3 or not Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    collect(Path(sys.argv[1]), HERE / sys.argv[2])
