"""Run folders in each of which one leaf of one file is not what it should be."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from report.written_runs import write_analyses, write_recorded, write_run

GONE = object()
WRONG: tuple[Any, ...] = (
    GONE,
    None,
    True,
    "x",
    -1,
    1e308,
    float("nan"),
    10**400,
    [],
    {},
    [[1]],
    {"__proto__": "y"},
    "\ud800",
)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values in a JSON value, inner ones too; of long lists the first two."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:2])
        if isinstance(value, list)
        else ()
    )
    for key, below in inner:
        yield (*path, key)
        yield from leaves(below, (*path, key))


def changed(value: Any, path: tuple[Any, ...], to: Any) -> Any:
    """A copy in which one place holds something else, or nothing."""
    copied = copy.deepcopy(value)
    at = copied
    for key in path[:-1]:
        at = at[key]
    if to is GONE:
        del at[path[-1]]
    else:
        at[path[-1]] = to
    return copied


def damaged_runs(folder: Path, *, each: bool = True) -> Iterator[Path]:
    """Run folders, each with another damage. Not ``each``: of all that can stand in a place one
    only, by turns."""
    sound = write_run(folder / "pattern", done=3, rounds=3)
    write_recorded(sound, rounds=3)
    write_analyses(sound, points=3)
    texts = {path.relative_to(sound): path.read_text() for path in sorted(sound.rglob("*.json*"))}
    for name, text in texts.items():
        lines = text.splitlines() if name.suffix == ".jsonl" else [text]
        middle = len(lines) // 2
        value = json.loads(lines[middle])
        for at, path in enumerate(leaves(value)):
            for kind, to in enumerate(WRONG):
                if not each and kind != at % len(WRONG):
                    continue
                bad = "\n".join(
                    [
                        *lines[:middle],
                        json.dumps(changed(value, path, to)),
                        *lines[middle + 1 :],
                        "",
                    ]
                )
                run = folder / f"{name.stem}-{at}-{kind}"
                (run / name).parent.mkdir(parents=True)
                for other in (Path("run.json"), Path("metrics.jsonl"), name):
                    (run / other).write_text(bad if other == name else texts[other])
                yield run
