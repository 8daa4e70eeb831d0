"""Changes by somebody who knows how a run folder hangs together, and makes the digests fit.

What is read then is no longer what the run wrote, and no check can find that. It still must do no
harm.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

from fedflat.experiments.run_folder.jsonl_log import JsonlLog
from fedflat.experiments.run_folder.record import _MADE
from fedflat.experiments.run_folder.schema import sign
from fedflat.files import digest
from report.damage import GONE, WRONG, changed, leaves


def forge(rng: random.Random, path: Path) -> str:
    """Change one value in a JSON file of a run folder or a study, with its digests; what was
    changed."""
    if path.suffix == ".jsonl":
        return _log(rng, path)
    value = json.loads(path.read_text())
    if path.name.startswith("round-"):
        body, saved = _another(rng, json.loads(value["body"]))
        text = json.dumps(body)
        path.write_text(json.dumps({"body": text, "digest": digest(text.encode()).hex()}))
        return saved
    if path.name != "run.json":
        value.pop("digest", None)
        value, saved = _another(rng, value)
        path.write_text(
            json.dumps({**value, "digest": sign(value)} if isinstance(value, dict) else value)
        )
        return saved
    value, saved = _another(rng, value)
    if rng.random() < 0.5:  # as if nothing had been done yet
        for name in ("checkpoint", "analysis"):
            shutil.rmtree(path.parent / name, ignore_errors=True)
        for log in path.parent.glob("*.jsonl"):
            log.unlink()
        if isinstance(value, dict) and value.pop("end", None) is not None and rng.random() < 0.9:
            value["status"] = "running"
    if isinstance(value, dict):
        _sign_run(value)
    path.write_text(json.dumps(value))
    return saved


def _sign_run(record: dict[str, Any]) -> None:
    record["identity"] = sign({name: record[name] for name in _MADE if name in record})
    if isinstance(end := record.get("end"), dict):
        end.pop("digest", None)
        end["digest"] = sign([record["identity"], record.get("status"), end])


def _log(rng: random.Random, path: Path) -> str:
    """A value of a line, and all the lines after it tied to it."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    record = json.loads((path.parent / "run.json").read_text())
    log = JsonlLog(path.parent, path.stem, record["identity"])
    output, lines = "nothing", []
    at = rng.randrange(len(rows) or 1)
    for number, row in enumerate(rows):
        row.pop("chain")
        if number == at:
            row, output = _another(rng, row)
        line, log.mark = log.mark.line(row)
        lines.append(line)
    path.write_bytes(b"".join(lines))
    if isinstance(record.get("end"), dict):
        record["end"][path.stem] = log.mark._asdict()
        _sign_run(record)
        (path.parent / "run.json").write_text(json.dumps(record, indent=2))
    return output


def _another(rng: random.Random, value: Any) -> tuple[Any, str]:
    """The value with another thing in one place."""
    places = list(leaves(value))
    if not places:
        return value, "nothing"
    leaf, to = rng.choice(places), rng.choice(WRONG)
    return changed(value, leaf, to), f"{leaf} {'is gone' if to is GONE else repr(to)[:40]}"
