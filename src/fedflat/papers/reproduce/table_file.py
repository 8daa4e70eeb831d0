"""A user's own table in a file, TOML or JSON.

    title = "Four methods on digits"
    source = "our README, three seeds"       # origin of the numbers

    [settings]                               # arguments of fedflat.experiment, for all rows
    on = "digits(lda(0))"
    rounds = 400
    lr = 0.05

    [[rows]]
    name = "fedsam"                          # letters, digits and . + = _ -
    method = "fedsam(rho=0.2)"
    reported = 94.57                         # accuracies in per cent; "X": does not converge;
                                             # optional
    spread = 0.25                            # the standard deviation, optional
    settings = {lr = 0.1}                    # in place of the shared ones
    seeds = [0, 1, 2]                        # the authors' seeds, optional

A row may also have ``table``, ``note`` and ``measure``: "accuracy", or another headline of its
task; "tests.unseen", the headline on a further test set; "personal", the best round of personalized
models; "rounds", "cost" or "speedup" to reach a ``target``, which is a score or the name of a row,
perhaps with a factor ("0.7*centralised"); "lambda_1", "ratio", "trace", "local_lambda_1" or
"global_lambda_1" on the examples ``set``, "test" or "train". ``reported = "-"`` means that the
target is not reached. ``on`` may be in a row or among the settings.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from fedflat.errors import LARGEST, DataError, nearest
from fedflat.files import Damaged, parse_json, parse_toml, read_bytes
from fedflat.papers.presets.preset import FLATNESS, SETS, TO_TARGET
from fedflat.papers.reproduce.cells import TESTS, TableCell
from fedflat.registry.specs import parse
from fedflat.tasks.headline import Headline

TOP = ("title", "source", "settings", "rows")
ROW = (
    "name",
    "method",
    "on",
    "settings",
    "reported",
    "spread",
    "seeds",
    "measure",
    "target",
    "set",
    "table",
    "note",
)


def read_table(path: Path, name: str) -> tuple[str, str, tuple[TableCell, ...]]:
    """Return title, source and cells of a file. `name` is the prefix of the names of the rows."""
    content = _read(path)
    _check_fields(path, "", content, TOP)
    title = _text(path, "", content, "title", name)
    source = _text(path, "", content, "source", str(path))
    rows = content.get("rows")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError(
            f"{path}: rows must be a list of tables, at least one ([[rows]] in TOML), "
            f"found {rows!r}."
        )
    shared = _settings(path, "", content)
    cells = tuple(_cell(path, name, place, row, shared) for place, row in enumerate(rows, 1))
    names = [cell.name for cell in cells]
    repeated = next((one for one in names if names.count(one) > 1), None)
    if repeated:
        raise DataError(
            f"{path}: two rows have the name {repeated.partition('/')[2]!r}. "
            "Give them different names."
        )
    return title, source, cells


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_bytes(path)
    except OSError as error:
        raise DataError(f"the table {path} cannot be read: {error}. Check the path.") from None
    try:
        table = parse_json(content) if path.suffix == ".json" else parse_toml(content)
    except Damaged as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise DataError(f"the table {path} is not {kind} that can be read: {error}.") from None
    if not isinstance(table, dict):
        raise DataError(
            f"the table {path} must have the fields {', '.join(TOP)}, found {type(table).__name__}."
        )
    return table


def _cell(
    path: Path, paper: str, place: int, row: dict[str, Any], shared: dict[str, Any]
) -> TableCell:
    where = f"row {place}: "
    name = _text(path, where, row, "name")
    if not re.fullmatch(r"[\w.+=-]+", name):
        raise DataError(
            f"{path}: {where}name must be made of letters, digits and . + = _ -, found {name!r}."
        )
    where = f"row {place} ({name}): "
    _check_fields(path, where, row, ROW)
    texts: dict[str, Any] = {
        field: _text(path, where, row, field) for field in ("method", "on") if field in row
    }
    arguments: dict[str, Any] = {**shared, **texts, **_settings(path, where, row)}
    for needed in ("method", "on", "rounds"):
        if needed not in arguments:
            raise DataError(
                f"{path}: {where}{needed} is missing. Set it in the row or in the settings."
            )
    if not _whole(arguments["rounds"]) or arguments["rounds"] < 1:
        raise DataError(
            f"{path}: {where}rounds must be a whole number of at least 1, "
            f"found {arguments['rounds']!r}."
        )
    headline = _headline(arguments)
    measure = _measure(path, where, row, headline)
    share = headline.share and measure not in (*TO_TARGET, *FLATNESS)
    low, high, numbers = (
        (0, 100, "a number from 0 to 100") if share else (-LARGEST, LARGEST, "a number")
    )
    marks = ("X", "-") if measure in TO_TARGET else ("X",)
    reported = row.get("reported")
    if not (reported is None or reported in marks or _number(reported, low, high)):
        words = " or ".join(f'"{mark}"' for mark in marks)
        raise DataError(
            f"{path}: {where}reported must be {numbers}, or {words}, found {reported!r}."
        )
    spread = row.get("spread")
    if spread is not None and (not _number(spread, 0, high) or not _number(reported, low, high)):
        raise DataError(
            f"{path}: {where}spread must be {numbers} beside a number, found {spread!r}."
        )
    seeds = row.get("seeds", [])
    if not isinstance(seeds, list) or not all(_whole(seed) and seed >= 0 for seed in seeds):
        raise DataError(
            f"{path}: {where}seeds must be a list of whole numbers from 0, found {seeds!r}."
        )
    return TableCell(
        name=f"{paper}/{name}",
        arguments=arguments,
        reported=None if reported in marks else reported,
        spread=spread,
        diverges=reported == "X",
        table=_text(path, where, row, "table", ""),
        note=_text(path, where, row, "note", ""),
        seeds=tuple(seeds),
        measure=measure,
        target=row.get("target"),
        where=row.get("set", "test"),
        unreached=reported == "-",
    )


def _measure(path: Path, where: str, row: dict[str, Any], headline: Headline) -> str:
    """Return the measure of a row, checked together with its target and its set."""
    measure = _text(path, where, row, "measure", headline.name)
    others = (*TO_TARGET, *FLATNESS)
    if measure not in (headline.name, "personal", *others) and not measure.startswith(TESTS):
        raise DataError(
            f"{path}: {where}measure must be {headline.name}, {TESTS}NAME of a further test set, "
            f"personal, or one of {', '.join(others)}, found {measure!r}."
        )
    target, examples = row.get("target"), row.get("set")
    low, high = (0, 100) if headline.share else (-LARGEST, LARGEST)
    right = _number(target, low, high) or (isinstance(target, str) and target.strip())
    if measure in TO_TARGET and not right:
        raise DataError(
            f"{path}: {where}{measure} needs a target, a score or the name of a row, found "
            f"{target!r}."
        )
    if measure not in TO_TARGET and target is not None:
        raise DataError(f"{path}: {where}a target needs the measure {', '.join(TO_TARGET)}.")
    if examples is not None and (measure not in FLATNESS or examples not in SETS):
        raise DataError(
            f"{path}: {where}set must be test or train, beside one of the measures "
            f"{', '.join(FLATNESS)}, found {examples!r}."
        )
    return measure


def _headline(arguments: dict[str, Any]) -> Headline:
    """Return the headline score of the run of a row."""
    task = arguments.get("task") or parse(arguments["on"], "data set").usual_task
    headline: Headline = parse(task, "task").headline
    return headline


def _settings(path: Path, where: str, row: dict[str, Any]) -> dict[str, Any]:
    from fedflat.experiments.api import experiment

    settings = row.get("settings", {})
    if not isinstance(settings, dict):
        raise DataError(
            f"{path}: {where}settings must be a table of names and values, found {settings!r}."
        )
    allowed = [
        name for name in inspect.signature(experiment).parameters if name not in ("seed", "loss")
    ]
    _check_fields(path, f"{where}settings: ", settings, allowed)
    return settings


def _check_fields(path: Path, where: str, row: dict[str, Any], allowed: Any) -> None:
    for field in row:
        if field not in allowed:
            raise DataError(
                f"{path}: {where}there is no field {field!r}.{nearest(field, allowed)} "
                f"Known: {', '.join(allowed)}."
            )


def _text(
    path: Path, where: str, row: dict[str, Any], field: str, default: str | None = None
) -> str:
    value = row.get(field, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise DataError(f"{path}: {where}{field} must be a text, found {value!r}.")
    return value


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
