"""Run folders as one document: everything the page shows, as plain JSON values.

boards      one entry for each section (data set, partition, task and score): the leading method,
            the target
methods     one entry for each method of a section: its board, its summary over seeds, its curves,
            its metrics
runs        one entry for each run: its folder, seed, state, machine, the command that repeats it
kinds       the registered analyses: id, title and position of each
curvature, surface, ...
            by the id of a kind: one entry for each analysis, with its method and its run
recorded    the labels of recorded metrics, by key
heatmaps    one entry for each recorded metric that is drawn as a heat map or a matrix, and run
album       the pictures that examples name by their places
groups      one entry for each run whose clients are in groups: labels of clients and of groups
problems    what could not be read;  missing  what was not measured
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from fedflat.analysis.analysis import analyses
from fedflat.analysis.shown_values import short
from fedflat.experiments.results.frame import settings
from fedflat.experiments.results.results import Result
from fedflat.experiments.results.scenario import Labels, Scenario, labelled, without_arguments
from fedflat.experiments.results.summary import Summary
from fedflat.experiments.results.tables import table
from fedflat.report.labels import (
    RunLabels,
    RunName,
    add_class_names,
    add_looks,
    command,
    not_default,
    run_names,
    shorten_leads,
    size_facts,
    unread,
)
from fedflat.report.leaderboard import Kind, Leaderboard, boards_of, counted, kind_of
from fedflat.report.load import (
    ReportRun,
    add_curvature,
    load_runs,
    missing,
    or_sentence,
    registered_kinds,
)
from fedflat.report.series import curves, heat_maps, recorded_numbers, score_curves
from fedflat.tasks.headline import common_target
from fedflat.version import __version__

Document = dict[str, Any]
SEEN = 200
"""Most clients, and most groups, whose labels are drawn."""
_SCORES = ("loss", "train_loss", "personal", "clients")
"""Scores that are drawn besides the headline."""


LONGEST_TITLE = 70
"""Most letters of a title with the texts of methods and data sets."""


def collect(
    folders: Sequence[Path],
    *,
    target: float | str | None = None,
    labels: Labels | None = None,
) -> Document:
    """Collect the content of the page from runs and studies.

    ``target`` is the headline to reach, as a number or as text. None: that of the study; without
    one, what the first method of a section reaches. ``labels`` are names for methods.
    """
    runs, problems = load_runs(folders)
    wanted = common_target(target, (run.result.headline for run in runs))
    if runs:
        labelled([run.result.method for run in runs], labels or {})  # refuses wrong ones
    try:
        return _json_document(runs, problems, wanted, labels)
    except Exception:  # some run cannot be shown: find it
        some = [or_sentence(_alone, run, run.folder, problems) for run in runs]
        runs = [run for run in some if run is not None]
        return _json_document(runs, problems, wanted, labels)


def _alone(run: ReportRun) -> ReportRun:
    """Return a run if it can be shown by itself, with a target that it has reached."""
    _json_document([run], [], run.result.latest())
    return run


def _json_document(
    runs: Sequence[ReportRun],
    problems: list[str],
    target: float | None,
    labels: Labels | None = None,
) -> Document:
    document = _document(runs, problems, target, run_names(runs, labels or {}))
    json.dumps(document, allow_nan=False)  # raises if it is no JSON
    return document


def _document(
    runs: Sequence[ReportRun],
    problems: list[str],
    target: float | None,
    named: Sequence[RunName],
) -> Document:
    names = [one.name for one in named]
    results = [replace(run.result, method=name) for run, name in zip(runs, names, strict=True)]
    boards, uncertain = boards_of(results, counted(results), [run.target for run in runs], target)
    summaries = {
        kind: one
        for board in boards
        for kind, one in zip(board.kinds, board.summaries, strict=True)
    }
    kinds = sorted(dict.fromkeys(map(kind_of, results)), key=lambda kind: _board_of(kind, boards))
    methods = [kind[0] for kind in kinds]
    places = [kinds.index(kind_of(result)) for result in results]
    sections = [boards[_board_of(kind_of(result), boards)].title(boards) for result in results]
    notes = dict.fromkeys(note for summary in summaries.values() for note in summary.notes)
    found = {kind: _analyses(kind, runs, places, methods, sections) for kind in analyses()}
    found["partition"] = _distinct(found["partition"], "counts")
    found["styles"] = _distinct(found["styles"], "clients")
    found["pictures"], pasted = _album(found["pictures"])
    models = RunLabels(runs, names)
    found["plane"] = [models.plane(one["run"], one) for one in found["plane"]]
    found["interpolate"] = [models.line(one["run"], one) for one in found["interpolate"]]
    document: Document = {
        "fedflat": __version__,
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "title": _title(methods, boards),
        "lead": " ".join(filter(None, [_lead(boards), _going(results), *notes])),
        "boards": [
            {
                **board.as_json(kinds, boards),
                "facts": size_facts(
                    run.record
                    for run, result in zip(runs, results, strict=True)
                    if kind_of(result)[1:] == (board.scenario, board.headline)
                ),
            }
            for board in boards
        ],
        "methods": [
            {
                **_method(place, summaries[kind], runs, results, places),
                **_named(named[places.index(place)]),
                "board": _board_of(kind, boards),
            }
            for place, kind in enumerate(kinds)
        ],
        "runs": [_run(run, place) for run, place in zip(runs, places, strict=True)],
        "shared": _shared(runs),
        "kinds": registered_kinds(),
        **found,
        "album": pasted,
        "heatmaps": _heat_maps(runs, places, methods, sections),
        "groups": _groups(runs, places, methods, sections),
        "problems": [
            *problems,
            *uncertain,
            *_twice(runs, results),
            *unread(run.record.experiment for run in runs),
        ],
    }
    add_looks(document)
    shorten_leads(document)
    add_class_names(document, [board.scenario for board in boards])
    add_curvature(document)
    document["recorded"] = _metrics(document, runs)
    document["missing"] = missing(document)
    tables = [table(board.summaries, board.target, board.last) for board in boards]
    titles = [f"{board.title(boards)}\n\n" if len(boards) > 1 else "" for board in boards]
    document["text"] = "\n\n".join(map("".join, zip(titles, tables, strict=True)))
    return document


def _board_of(kind: Kind, boards: Sequence[Leaderboard]) -> int:
    return [(board.scenario, board.headline) for board in boards].index(kind[1:])


def _lead(boards: Sequence[Leaderboard]) -> str:
    if len(boards) < 2:
        return "".join(board.lead for board in boards)
    return (
        f"{len(boards)} sections, one for each data set, partition and task. Nothing is compared "
        "across sections."
    )


def _title(methods: Sequence[str], boards: Sequence[Leaderboard]) -> str:
    if not boards:
        return "No runs"
    texts, sets = (
        {of(board.scenario) for board in boards} for of in (_data_of, lambda one: one.data_set)
    )
    data = f"{len(sets)} data sets" if len(sets) > 1 else f"{sets.pop()}, {len(texts)} partitions"
    named = list(dict.fromkeys(methods))
    one = f"{named[0]} on " if len(named) == 1 else f"{len(named)} methods on "
    full = one + (texts.pop() if len(texts) == 1 else data)
    if len(full) <= LONGEST_TITLE or len(boards) > 1:
        return full
    words = without_arguments(one) if len(one) > LONGEST_TITLE // 2 else one
    return words + boards[0].scenario.data_set


def _data_of(scenario: Scenario) -> str:
    return scenario.on or scenario.data_set


def _going(results: Sequence[Result]) -> str:
    """Sentences about runs that are not finished or did not end well."""
    sentences = []
    going = sum(result.status == "running" for result in results)
    if going and len(results) == 1:
        sentences.append(
            f"The run is not finished: it has done {_done(results[0])} of {results[0].rounds} "
            "rounds."
        )
    elif going:
        sentences.append(
            f"{going} of {len(results)} runs {'is' if going == 1 else 'are'} not finished."
        )
    diverged = sum(result.diverged for result in results)
    if diverged:
        sentences.append(f"{diverged} of {len(results)} runs diverged.")
    return " ".join(sentences)


def _done(result: Result) -> int:
    """The round of the last evaluation."""
    return int(result.rows[-1]["round"]) if result.rows else 0


def _method(
    place: int,
    summary: Summary,
    runs: Sequence[ReportRun],
    results: Sequence[Result],
    places: Sequence[int],
) -> Document:
    own = [i for i, at in enumerate(places) if at == place]
    now = [value for value in (short(results[i].latest()) for i in own) if value is not None]
    words = ("method", "headline", "tests", "classes", "notes")
    numbers = {name: short(value, 6) for name, value in vars(summary).items() if name not in words}
    tests, classes = (
        {name: [short(value, 6) for value in pair] for name, pair in apart.items()}
        for apart in (summary.tests, summary.classes)
    )
    return {
        **numbers,
        "name": summary.method,
        "by_validation": summary.by_validation,
        "runs": own,
        "begun": len(own),
        "now": short(mean(now)) if now else None,
        "seconds": short(mean(results[i].ledger.seconds for i in own)),
        "stack": runs[own[0]].record.info.method.stack,
        "tests": tests,
        "classes": classes,
        "curves": score_curves([results[i].rows for i in own], summary.headline.name, _SCORES),
        "recorded": _recorded([runs[i] for i in own]),
    }


def _named(one: RunName) -> Document:
    """The name of a method in a table with columns for settings."""
    return {"short": one.short, "text": one.method, "columns": one.columns}


def _metrics(document: Document, runs: Sequence[ReportRun]) -> Document:
    """The title, the note and the unit of each recorded metric, as its class described them when
    the run was made, in the order in which they were named."""
    keys = dict.fromkeys(key for method in document["methods"] for key in method["recorded"])
    keys |= dict.fromkeys(one["key"] for one in document["heatmaps"])
    named: Document = {}
    for run in runs:
        named |= {key: one for key, one in run.record.recorded.items() if key not in named}
    unnamed = {key: {"title": key, "note": "", "entries": "entry", "unit": ""} for key in keys}
    return {key: one for key, one in (named | unnamed | named).items() if key in keys}


def _recorded(runs: Sequence[ReportRun]) -> Document:
    seeds = [recorded_numbers(run.recorded, _drawings(run)) for run in runs]
    names = list(
        dict.fromkeys(name for rows in seeds for row in rows for name in row if name != "round")
    )
    return curves(seeds, names) if names else {}


def _drawings(run: ReportRun) -> dict[str, str]:
    """Return the drawings that recorded metrics have chosen, by key."""
    return {key: one.get("drawing", "") for key, one in run.record.recorded.items()}


def _run(run: ReportRun, place: int) -> Document:
    record, result = run.record, run.result
    exp = record.experiment
    return {
        "folder": str(run.folder),
        "method": place,
        "seed": result.seed,
        "status": "diverged" if result.diverged else str(result.status),
        "round": _done(result),
        "rounds": result.rounds,
        "score": short(result.final()),
        "seconds": short(result.ledger.seconds),
        "made": record.made[:16].replace("T", " "),
        "fedflat": record.version,
        "machine": {str(k): str(v) for k, v in record.machine.items()},
        "settings": {k: _spelled(v) for k, v in not_default(settings(exp)).items() if k != "seed"},
        "command": command(exp, record.execution, record.info),
        "replayed": exp.replayed,
    }


def _spelled(value: object) -> str:
    """A setting as a text, as it is written in run.json."""
    return value if isinstance(value, str) else json.dumps(value)


def _shared(runs: Sequence[ReportRun]) -> list[str]:
    """The names of the settings that are the same in all runs."""
    every = [settings(run.record.experiment) for run in runs]
    names = dict.fromkeys(name for one in every for name in one)
    return [name for name in names if len({json.dumps(one.get(name)) for one in every}) == 1]


def _analyses(
    kind: str,
    runs: Sequence[ReportRun],
    places: Sequence[int],
    methods: Sequence[str],
    sections: Sequence[str],
) -> list[Document]:
    """The analyses of a kind; models other than the server's are named beside the method."""
    return [
        {
            "method": place,
            "run": number,
            "seed": run.result.seed,
            "label": methods[place]
            + (f" [{one.model}]" if one.model not in ("", "server") else ""),
            "section": section,
            "settings": one.settings,
            **one.result,
        }
        for number, (run, place, section) in enumerate(zip(runs, places, sections, strict=True))
        for one in run.analyses
        if one.kind == kind
    ]


def _distinct(found: Sequence[Document], what: str) -> list[Document]:
    """Drop repeated descriptions of the clients' data: methods with one seed share them."""
    distinct: dict[str, Document] = {}
    for one in found:
        key = json.dumps([one["section"], one["seed"], one[what]])
        distinct.setdefault(key, {**one, "label": f"seed {one['seed']}"})
    return list(distinct.values())


def _heat_maps(
    runs: Sequence[ReportRun],
    places: Sequence[int],
    methods: Sequence[str],
    sections: Sequence[str],
) -> list[Document]:
    return [
        {
            "key": key,
            "method": place,
            "label": methods[place],
            "seed": run.result.seed,
            "section": section,
            "settings": "",
            **values,
        }
        for run, place, section in zip(runs, places, sections, strict=True)
        for key, values in heat_maps(run.recorded, _drawings(run)).items()
    ]


def _groups(
    runs: Sequence[ReportRun],
    places: Sequence[int],
    methods: Sequence[str],
    sections: Sequence[str],
) -> list[Document]:
    """The groups of clients, with the labels of the first clients and groups."""
    found = []
    for run, place, section in zip(runs, places, sections, strict=True):
        if run.groups is None:
            continue
        one, counts, together = run.groups, run.groups.counts, run.groups.together
        clients = [client for group in one.groups for client in group][:SEEN]
        found.append(
            {
                "method": place,
                "label": f"{methods[place]}, seed {run.result.seed}",
                "section": section,
                "by": one.by,
                "clients": one.clients,
                "sizes": [len(group) for group in one.groups],
                "order": clients,
                "before": None if counts is None else [counts[client] for client in clients],
                "after": None if together is None else together[:SEEN],
            }
        )
    return found


def _twice(runs: Sequence[ReportRun], results: Sequence[Result]) -> list[str]:
    """Runs with the same settings and seed, which would pass for two seeds."""
    seen: dict[tuple[Kind, int], Path] = {}
    sentences = []
    for run, result in zip(runs, results, strict=True):
        key = (kind_of(result), result.seed)
        if key in seen:
            sentences.append(
                f"{run.folder} repeats {seen[key]} (same settings, same seed). Both count as seeds."
            )
        seen.setdefault(key, run.folder)
    return sentences


def _album(found: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Analyses whose examples refer to pictures by number, and the pictures, each once."""
    places: dict[str, int] = {}

    def pasted(example: dict[str, Any]) -> dict[str, Any]:
        return example | {
            side: places.setdefault(example[side], len(places))
            for side in ("image", "truth", "mask")
        }

    shown = [
        one | {"sets": {name: list(map(pasted, some)) for name, some in one["sets"].items()}}
        for one in found
    ]
    return shown, list(places)
