"""Convert run folders of fedflat 0.3 to the format of this version, in place, so that they can be
read.

    python results/convert.py results runs/mine

It renames the settings ``watch`` and ``track`` to ``record`` and ``logger``, the file
``watch.jsonl`` to ``recorded.jsonl``, and two of the keys in it, where they have the old names.
Each run is signed anew. Converted runs can be reported. Unfinished ones cannot be resumed, since
their checkpoints are those of the older version. Converted folders are not changed again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fedflat.experiments.recording import metrics_of
from fedflat.experiments.run_folder.groups import read_groups, write_groups
from fedflat.experiments.run_folder.jsonl_log import JsonlLog, Row
from fedflat.experiments.run_folder.record import identity
from fedflat.experiments.run_folder.schema import sign, signed
from fedflat.tasks.headline import Headline
from fedflat.version import __version__

SETTINGS = {"watch": "record", "track": "logger"}
KEYS = {"param_norm": "norms", "feature_norms": "features"}


def convert(folder: Path) -> None:
    """Convert all runs and studies in a folder."""
    for path in sorted(folder.rglob("run.json")):
        facts = json.loads(path.read_text())
        if is_old(facts):
            path.write_text(json.dumps(convert_run(path.parent, facts), indent=1) + "\n")
            print(path.parent)
    for path in sorted(folder.rglob("study.json")):
        plan = json.loads(path.read_text())
        if is_old(plan):
            del plan["digest"]
            plan |= {"fedflat": __version__, "how": renamed(plan["how"], SETTINGS)}
            path.write_text(json.dumps(signed(plan), indent=1) + "\n")
            print(path)


def is_old(facts: dict[str, Any]) -> bool:
    """Whether a run or a study is of another version, or of the older format."""
    other = facts["fedflat"].split(".")[:2] != __version__.split(".")[:2]
    return other or not SETTINGS.keys().isdisjoint(facts["how"]) or "watch" in facts.get("end", {})


def renamed(values: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The same values under their new names."""
    return {names.get(name, name): value for name, value in values.items()}


def convert_run(run: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Write the logs and the groups of a run under its new identity; its new run.json."""
    groups = read_groups(run, facts["identity"])
    recorded = read(run / "recorded.jsonl") or read(run / "watch.jsonl")
    rows = {
        "metrics": read(run / "metrics.jsonl"),
        "recorded": [renamed(row, KEYS) for row in recorded],
    }
    keys = {key for row in rows["recorded"] for key in row}
    new = facts | {"fedflat": __version__, "how": renamed(facts["how"], SETTINGS)}
    new["identity"] = identity(new)
    labels = {one.key: one.labels for one in metrics_of("all") if one.key in keys}
    if labels and "recorded" not in new:
        new["recorded"] = labels
    logs = {}
    for name, found in rows.items():
        (run / f"{name}.jsonl").unlink(missing_ok=True)
        headline = Headline.from_json(new["experiment"].get("headline"))
        log = JsonlLog(run, name, new["identity"], [headline.name])
        for row in found:
            log.append(row)
        logs[name] = log.mark._asdict()
    (run / "watch.jsonl").unlink(missing_ok=True)
    if groups is not None:
        write_groups(run, new["identity"], groups)
    end = new.pop("end", None)
    if end is None:
        return new
    end = {name: value for name, value in end.items() if name not in ("watch", "digest")} | logs
    return new | {"end": {**end, "digest": sign([new["identity"], new["status"], end])}}


def read(path: Path) -> list[Row]:
    """The rows of a log, without the digests that tie them together; a line that was cut short is
    left out."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    rows: list[Row] = [json.loads(line) for line in lines]
    return [{key: value for key, value in row.items() if key != "chain"} for row in rows]


if __name__ == "__main__":
    if len(sys.argv) < 2 or not all(Path(name).is_dir() for name in sys.argv[1:]):
        sys.exit(__doc__)
    for name in sys.argv[1:]:
        convert(Path(name))
