"""Load run folders and their stored analyses. What is wrong with one of them becomes a sentence.

Files are written by machines that lose power, by other versions and by hand. A page of a hundred
runs must not depend on each of them being intact. A run that cannot be read is left out. A part
that the page does not need, such as an analysis, is left out by itself.

What a kind of analysis shows is defined by its class (`fedflat.analysis.kinds`). A result with
another shape is `Damaged`, and the caller names the file.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any, TypeVar

from fedflat.analysis.analysis import Result as AnalysisValue
from fedflat.analysis.analysis import analyses
from fedflat.analysis.analysis_store import read_analysis
from fedflat.analysis.shown_values import short
from fedflat.core.json_schema import check
from fedflat.errors import FedflatError
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.groups import GROUPS, Grouped, read_groups
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.record import RunRecord, read_record, read_rows
from fedflat.experiments.run_folder.study_file import read_target, runs_in
from fedflat.files import Damaged

_SETTINGS = {
    "model?": str,
    "set?": str,
    "of?": int,
    "examples?": (int, None),
    "a?": str,
    "b?": str,
    "probes?": int,
    "*": object,
}


class Unusable(ValueError):
    """An analysis that is whole but cannot be shown."""


@dataclass(frozen=True)
class ShownAnalysis:
    kind: str
    model: str
    """Which model was analysed; empty if the analysis is of no model."""
    settings: str
    """The other settings as text; equal texts mean comparable results."""
    result: AnalysisValue


def checked(saved: dict[str, Any]) -> ShownAnalysis:
    """Return what the page shows of a stored analysis."""
    kind, settings = saved["kind"], dict(saved["settings"])
    known = analyses()
    if kind not in known:
        raise Unusable(
            f"this version does not know analyses of the kind {kind!r}. "
            "If a plugin has it, name the plugin with --plugin."
        )
    check(settings, _SETTINGS, "settings")
    model = settings.pop("model", "")
    for name in ("models", "a", "b"):  # the result names them
        settings.pop(name, None)
    result = known[kind].for_report(saved["result"], saved["settings"])
    return ShownAnalysis(kind, model, settings_text(settings), result)


def settings_text(settings: dict[str, Any]) -> str:
    """Return settings as text, without those that are off or zero.

    >>> settings_text({"set": "test", "examples": 500, "of": 10000, "seed": 0, "power": True})
    '500 of 10,000 test examples, power'
    >>> settings_text({"set": "client:3", "of": 40, "models": ["a", "b"], "span": 1.0})
    'all 40 examples of client:3, models a+b, span 1.0'
    """
    rest = {name: value for name, value in settings.items() if value not in (None, False, 0)}
    if not rest.get("probes"):
        rest.pop("method", None)
    parts = []
    if "set" in rest and "of" in rest:
        where, whole, used = str(rest.pop("set")), rest.pop("of"), rest.pop("examples", None)
        count = f"all {whole:,}" if used is None else f"{used:,} of {whole:,}"
        parts.append(
            f"{count} examples of {where}" if ":" in where else f"{count} {where} examples"
        )
    for name, value in rest.items():
        text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
        parts.append(name if value is True else f"{name} {text}")
    return ", ".join(parts)


def registered_kinds() -> list[dict[str, Any]]:
    """The registered analyses, with their titles and places on the page."""
    return [
        {
            "id": kind,
            "title": one.title or kind.replace("_", " "),
            "short": one.short_title,
            "position": one.position,
        }
        for kind, one in analyses().items()
    ]


MAX_MESSAGE = 200
"""Most characters of an unexpected error."""
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class ReportRun:
    """The content of a run folder that the report uses."""

    folder: Path
    record: RunRecord
    result: Result
    recorded: list[Row]
    analyses: list[ShownAnalysis]
    groups: Grouped | None = None
    """The groups of clients, if the topology has any."""
    target: float | None = None
    """The target of the study that the run belongs to."""


def load_runs(folders: Sequence[Path]) -> tuple[list[ReportRun], list[str]]:
    """Load the runs in these run and study folders; also return a sentence for each problem."""
    problems: list[str] = []
    targets: dict[Path, float | None] = {}

    def started(folder: Path) -> dict[Path, float | None]:
        return dict.fromkeys(runs_in(folder, problems.append), read_target(folder))

    def load(folder: Path) -> ReportRun:
        return replace(read(folder, problems), target=targets[folder])

    for folder in map(Path, folders):
        for run, target in (or_sentence(started, folder, folder, problems) or {}).items():
            targets.setdefault(run, target)
    runs = [or_sentence(load, folder, folder, problems) for folder in targets]
    return [run for run in runs if run is not None], problems


def or_sentence(work: Callable[[T], R], on: T, folder: Path, problems: list[str]) -> R | None:
    """Return ``work(on)``. If it fails, return None and add a sentence about the folder."""
    try:
        return work(on)
    except FedflatError as error:
        message = str(error)
        where = "" if str(folder) in message else f"{folder}: "
        problems.append(f"{where}{message} It is left out.")
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        shortened = why if len(why) <= MAX_MESSAGE else f"{why[:MAX_MESSAGE]}..."
        problems.append(f"{folder} cannot be shown ({shortened}). It is left out.")
    return None


def read(folder: Path, problems: list[str]) -> ReportRun:
    """Read one run. Damaged parts that the page does not need become sentences in `problems`."""
    record = read_record(folder)
    rows, recorded = (read_rows(folder, name, record) for name in ("metrics", "recorded"))
    if not rows:
        problems.append(f"{folder} holds no evaluation yet.")
    identity = record.identity
    analyses, groups = _analyses(folder, identity, problems), _groups(folder, identity, problems)
    return ReportRun(folder, record, Result.from_record(record, rows), recorded, analyses, groups)


def _groups(folder: Path, identity: str, problems: list[str]) -> Grouped | None:
    try:
        return read_groups(folder, identity)
    except Damaged as error:
        problems.append(f"{folder / GROUPS} is damaged ({error}): groups are not shown.")
        return None


def _analyses(folder: Path, identity: str, problems: list[str]) -> list[ShownAnalysis]:
    found = []
    for path in _files(folder / "analysis", problems):
        if path.name.endswith(".part.json"):
            problems.append(f"{path} is an unfinished analysis. It is shown when it is finished.")
            continue
        try:
            found.append(_analysis(path, path.lstat().st_mtime_ns, identity))
        except Unusable as error:
            problems.append(f"{path}: {error} It is left out.")
        except (Damaged, OSError) as error:
            problems.append(
                f"{path} is damaged ({error}). Delete it and analyse again; it is left out."
            )
    return found


def _files(folder: Path, problems: list[str]) -> list[Path]:
    try:
        if folder.is_symlink():
            raise OSError(errno.ELOOP, "it is a link, and links are not followed")
        return sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(f"{folder} cannot be read ({error.strerror}): no analysis is shown.")
        return []


@lru_cache(maxsize=1024)
def _analysis(path: Path, changed: int, identity: str) -> ShownAnalysis:
    """Return the analysis in a file. The dashboard reads a file again only if it has changed."""
    return checked(read_analysis(path, identity))


Document = dict[str, Any]


def add_curvature(document: Document) -> None:
    """Add the largest eigenvalue and the trace of each method of a section.

    They are from the settings with which most runs of the section were analysed, on most examples.
    Their spread is the larger of two: over the seeds, and within a run over parts of the examples.
    """
    for board in document["boards"]:
        among = [one for one in document["curvature"] if one["section"] == board["title"]]
        examples = {one["settings"]: one.get("examples") or 0 for one in among}
        often = Counter(one["settings"] for one in among)
        board["curvature_of"] = max(
            examples, key=lambda text: (often[text], examples[text]), default=""
        )
    for place, method in enumerate(document["methods"]):
        settings = document["boards"][method["board"]]["curvature_of"]
        own = [
            one
            for one in document["curvature"]
            if one["method"] == place and one["settings"] == settings
        ]
        last = {one["run"]: one for one in own}.values()
        for name, found in (
            ("lambda_1", [(one.get("lambda_1"), _top_spread(one)) for one in last]),
            ("scaled", [(one.get("scaled"), _scaled_spread(one)) for one in last]),
            ("trace", [(one.get("trace", {}).get("mean"), _trace_spread(one)) for one in last]),
        ):
            numbers = [value for value, _ in found if value is not None]
            within = [off for value, off in found if value is not None and off is not None]
            spreads = [stdev(numbers)] if len(numbers) > 1 else []
            spreads += [mean(within)] if within else []
            method[name] = short(mean(numbers)) if numbers else None
            method[f"{name}_spread"] = short(max(spreads)) if spreads else None


def _top_spread(one: Document) -> float | None:
    """The standard deviation of the largest eigenvalue over parts of the examples, if they were not
    all used."""
    found: float | None = one.get("subsample", {}).get("lambda_1_spread")
    return found


def _scaled_spread(one: Document) -> float | None:
    top, norm = _top_spread(one), one.get("norm")
    return None if top is None or norm is None else top * norm * norm


def _trace_spread(one: Document) -> float | None:
    """The larger of its standard error over random vectors and its standard deviation over parts of
    the examples."""
    both = [one.get("trace", {}).get("stderr"), one.get("subsample", {}).get("trace_spread")]
    return max((value for value in both if value is not None), default=None)


def missing(document: Document) -> list[str]:
    """Return a sentence about all that was not measured, and about what only some methods have."""
    headlines = [board["headline"]["name"] for board in document["boards"]]
    attacks = [run["settings"].get("attack", "") for run in document["runs"]]
    known = analyses().items()
    absent = [
        analysis.subject
        for kind, analysis in known
        if analysis.subject and not document[kind] and analysis.expected(headlines, attacks)
    ]
    sentences = (
        [f"Not analysed: {', '.join(absent)}. `fedflat analyse RUN` adds them."] if absent else []
    )
    if not document["recorded"]:
        sentences.append(
            "No metrics were recorded during training. `fedflat run --record` adds them."
        )
    for kind, analysis in known:
        if analysis.subject and document[kind] and analysis.of_every_run:
            sentences += _incomplete(document, kind, analysis.subject)
    return sentences


def _incomplete(document: Document, kind: str, subject: str) -> list[str]:
    """Return a sentence for each section in which some methods lack an analysis."""
    analysed = {one["method"] for one in document[kind]}
    sentences = []
    for place, board in enumerate(document["boards"]):
        names = {at: m["name"] for at, m in enumerate(document["methods"]) if m["board"] == place}
        without = sorted(name for at, name in names.items() if at not in analysed)
        of = "" if len(without) == len(names) > 1 else f" of {', '.join(without)}"
        on = f" on {board['title']}" if len(document["boards"]) > 1 else ""
        sentences += [f"No {subject}{of}{on}."] if without else []
    return sentences
