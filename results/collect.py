"""Copies what is small of a folder of runs into this one: settings, metrics, tables, figures; no models, no data.

    python results/collect.py runs/a-fedgloss-table3 fedgloss-table3

Folders of the machine that made the runs are left out. Given again it copies anew, for runs that have gone on.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SETTINGS = ("reproduce.json", "*/seed-*/run.json")
PLAIN = ("table.md", "table.csv", "accuracy.svg", "miou.svg", "*/seed-*/metrics.jsonl", "*/seed-*/groups.json")


def collect(runs: Path, name: str) -> None:
    """Copy them."""
    into = HERE / name
    shutil.rmtree(into, ignore_errors=True)
    for path in (one for pattern in (*SETTINGS, *PLAIN) for one in sorted(runs.glob(pattern))):
        copy = into / path.relative_to(runs)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.name in ("reproduce.json", "run.json"):
            copy.write_text(json.dumps(placeless(json.loads(path.read_text())), indent=1) + "\n")
        else:
            shutil.copyfile(path, copy)
    print(into, sum(path.stat().st_size for path in into.rglob("*") if path.is_file()), "bytes")


def placeless(value: Any) -> Any:
    """Settings without the folders they were read from."""
    if isinstance(value, dict):
        return {key: placeless(one) for key, one in value.items() if key != "place"}
    return [placeless(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    if len(sys.argv) != 3 or not Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    collect(Path(sys.argv[1]), sys.argv[2])
