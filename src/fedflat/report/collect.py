"""Run folders as one document: everything the page shows, as plain JSON values.

boards      one entry for each section (data set, partition, task and score): which method is ahead, the target
methods     one entry for each method of a section: its board, its summary over seeds, its curves, its metrics
runs        one entry for each run: its folder, seed, state, machine, the command that repeats it
pictures, confusion, curvature, surface, plane, interpolate, local_global, corruptions, partition, styles, recovery
            one entry for each analysis, with the places of its method and its run
recorded    the labels of recorded metrics, by key;  heatmaps  one entry for each of them that is a list, and run
album       the pictures that examples name by their places
groups      one entry for each run whose clients are in groups: labels of clients and of groups
problems    what could not be read;  missing  what was not measured
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from fedflat.experiments.results.results import Result, Summary
from fedflat.experiments.results.scenario import Scenario
from fedflat.experiments.results.tables import table
from fedflat.report import run_command as making
from fedflat.report.labels import RunLabels
from fedflat.report.leaderboard import Kind, Leaderboard, boards_of, kind_of
from fedflat.report.load import gather
from fedflat.report.missing import missing
from fedflat.report.read import Read
from fedflat.report.series import curves, recorded_lists, recorded_numbers, score_curves, short
from fedflat.tasks.headline import common_target
from fedflat.version import __version__

Document = dict[str, Any]
SEEN = 200
"""Clients, and groups of them, whose labels are drawn."""
ANALYSES = (
    "pictures",
    "confusion",
    "curvature",
    "surface",
    "plane",
    "interpolate",
    "local_global",
    "corruptions",
    "partition",
    "styles",
    "recovery",
)
_SCORES = ("loss", "train_loss", "personal", "clients")
"""What is drawn besides the headline."""


def collect(folders: Sequence[Path], *, target: float | str | None = None) -> Document:
    """What these runs and studies hold.

    ``target`` is the headline to reach, as a number or as text. None: that of the study; without
    one, what the first method of a section reaches.
    """
    runs, problems = gather(folders, _alone)
    return _document(runs, problems, common_target(target, (run.result.headline for run in runs)))


def _alone(run: Read) -> str:
    """One run as it would be embedded in the page; the target is one that it has reached."""
    return json.dumps(_document([run], [], run.result.latest()), allow_nan=False)


def _document(runs: Sequence[Read], problems: list[str], target: float | None) -> Document:
    names = _labels(runs)
    results = [replace(run.result, method=name) for run, name in zip(runs, names, strict=True)]
    boards, uncertain = boards_of(results, _counted(results), [run.target for run in runs], target)
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
    found = {kind: _analyses(kind, runs, places, methods, sections) for kind in ANALYSES}
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
        "boards": [board.as_json(kinds, boards) for board in boards],
        "methods": [
            {
                **_method(place, summaries[kind], runs, results, places),
                "board": _board_of(kind, boards),
            }
            for place, kind in enumerate(kinds)
        ],
        "runs": [_run(run, place) for run, place in zip(runs, places, strict=True)],
        "shared": _shared(runs),
        **found,
        "album": pasted,
        "heatmaps": _heat_maps(runs, places, methods, sections),
        "groups": _groups(runs, places, methods, sections),
        "problems": [
            *problems,
            *uncertain,
            *_twice(runs, results),
            *making.unread(run.facts["experiment"] for run in runs),
        ],
    }
    _add_curvature(document)
    document["recorded"] = _metrics(document, runs)
    document["missing"] = missing(document)
    tables = [table(board.summaries, board.target, board.last) for board in boards]
    titles = [f"{board.title(boards)}\n\n" if len(boards) > 1 else "" for board in boards]
    document["text"] = "\n\n".join(map("".join, zip(titles, tables, strict=True)))
    return document


def _labels(runs: Sequence[Read]) -> list[str]:
    """A name for each run within its scenario."""
    named: dict[int, str] = {}
    for scenario in dict.fromkeys(run.result.scenario for run in runs):
        own = [place for place, run in enumerate(runs) if run.result.scenario == scenario]
        named |= dict(
            zip(own, making.labels([runs[place].facts["experiment"] for place in own]), strict=True)
        )
    return [named[place] for place in range(len(runs))]


def _board_of(kind: Kind, boards: Sequence[Leaderboard]) -> int:
    return [(board.scenario, board.headline) for board in boards].index(kind[1:])


def _lead(boards: Sequence[Leaderboard]) -> str:
    if len(boards) < 2:
        return "".join(board.lead for board in boards)
    return f"{len(boards)} sections, one for each data set, partition and task. Nothing is compared across sections."


def _counted(results: Sequence[Result]) -> list[Result]:
    """The seeds a summary is made of: those that ended, or all of a method if none did."""
    ended = {kind_of(result) for result in results if result.status != "running"}
    return [r for r in results if r.status != "running" or kind_of(r) not in ended]


def _title(methods: Sequence[str], boards: Sequence[Leaderboard]) -> str:
    if not boards:
        return "No runs"
    texts, sets = (
        {of(board.scenario) for board in boards} for of in (_data_of, lambda one: one.data_set)
    )
    data = f"{len(sets)} data sets" if len(sets) > 1 else f"{sets.pop()}, {len(texts)} partitions"
    named = list(dict.fromkeys(methods))
    return f"{named[0] if len(named) == 1 else f'{len(named)} methods'} on {texts.pop() if len(texts) == 1 else data}"


def _data_of(scenario: Scenario) -> str:
    return scenario.on or scenario.data_set


def _going(results: Sequence[Result]) -> str:
    """What is not finished, or did not end well."""
    said = []
    going = sum(result.status == "running" for result in results)
    if going and len(results) == 1:
        said.append(
            f"The run is not finished: it has done {_done(results[0])} of {results[0].rounds} rounds."
        )
    elif going:
        said.append(f"{going} of {len(results)} runs {'is' if going == 1 else 'are'} not finished.")
    diverged = sum(result.diverged for result in results)
    if diverged:
        said.append(f"{diverged} of {len(results)} runs diverged.")
    return " ".join(said)


def _done(result: Result) -> int:
    """The round of the last evaluation."""
    return int(result.rows[-1]["round"]) if result.rows else 0


def _method(
    place: int,
    summary: Summary,
    runs: Sequence[Read],
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
        "runs": own,
        "begun": len(own),
        "now": short(mean(now)) if now else None,
        "seconds": short(mean(results[i].ledger.seconds for i in own)),
        "stack": making.stack(runs[own[0]].facts["experiment"]["method"]),
        "tests": tests,
        "classes": classes,
        "curves": score_curves([results[i].rows for i in own], summary.headline.name, _SCORES),
        "recorded": _recorded([runs[i] for i in own]),
    }


def _metrics(document: Document, runs: Sequence[Read]) -> Document:
    """The title, the note and the unit of each recorded metric, as its class described them when
    the run was made."""
    keys = dict.fromkeys(key for method in document["methods"] for key in method["recorded"])
    keys |= dict.fromkeys(one["key"] for one in document["heatmaps"])
    known = {
        key: labels
        for run in reversed(runs)
        for key, labels in run.facts.get("recorded", {}).items()
    }
    return {
        key: known.get(key, {"title": key, "note": "", "entries": "entry", "unit": ""})
        for key in keys
    }


def _recorded(runs: Sequence[Read]) -> Document:
    seeds = [recorded_numbers(run.recorded) for run in runs]
    names = list(
        dict.fromkeys(name for rows in seeds for row in rows for name in row if name != "round")
    )
    return curves(seeds, names) if names else {}


def _run(run: Read, place: int) -> Document:
    facts, result = run.facts, run.result
    exp = facts["experiment"]
    return {
        "folder": str(run.folder),
        "method": place,
        "seed": result.seed,
        "status": "diverged" if result.diverged else str(result.status),
        "round": _done(result),
        "rounds": result.rounds,
        "score": short(result.final()),
        "seconds": short(result.ledger.seconds),
        "made": str(facts.get("made", ""))[:16].replace("T", " "),
        "fedflat": str(facts["fedflat"]),
        "machine": {str(k): str(v) for k, v in facts.get("machine", {}).items()},
        "settings": {
            k: _spelled(v)
            for k, v in making.worth_saying(making.settings(exp)).items()
            if k != "seed"
        },
        "command": making.command(exp, facts["how"]),
        "replayed": making.replayed(exp),
    }


def _spelled(value: Any) -> str:
    """A setting as a text, as it is written in run.json."""
    return value if isinstance(value, str) else json.dumps(value)


def _shared(runs: Sequence[Read]) -> list[str]:
    """The names of the settings that are the same in all runs."""
    every = [making.settings(run.facts["experiment"]) for run in runs]
    names = dict.fromkeys(name for one in every for name in one)
    return [name for name in names if len({json.dumps(one.get(name)) for one in every}) == 1]


def _analyses(
    kind: str,
    runs: Sequence[Read],
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
    """What is of the clients' data once: methods with one seed share it."""
    kept: dict[str, Document] = {}
    for one in found:
        key = json.dumps([one["section"], one["seed"], one[what]])
        kept.setdefault(key, {**one, "label": f"seed {one['seed']}"})
    return list(kept.values())


def _heat_maps(
    runs: Sequence[Read], places: Sequence[int], methods: Sequence[str], sections: Sequence[str]
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
        for key, values in recorded_lists(run.recorded).items()
    ]


def _groups(
    runs: Sequence[Read], places: Sequence[int], methods: Sequence[str], sections: Sequence[str]
) -> list[Document]:
    """Who is with whom, and the labels of the first clients, group by group, and of the first
    groups."""
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


def _add_curvature(document: Document) -> None:
    """The methods' largest eigenvalues and traces, from the settings that most runs of the section
    were analysed with, on most examples.

    Their spread is the larger of two: over the seeds, and within a run, over parts of the examples.
    """
    for board in document["boards"]:
        among = [one for one in document["curvature"] if one["section"] == board["title"]]
        said = {one["settings"]: one.get("examples") or 0 for one in among}
        often = Counter(one["settings"] for one in among)
        board["curvature_of"] = max(said, key=lambda text: (often[text], said[text]), default="")
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


def _twice(runs: Sequence[Read], results: Sequence[Result]) -> list[str]:
    """Runs with the same settings and seed, which would pass for two seeds."""
    seen: dict[tuple[Kind, int], Path] = {}
    said = []
    for run, result in zip(runs, results, strict=True):
        key = (kind_of(result), result.seed)
        if key in seen:
            said.append(
                f"{run.folder} repeats {seen[key]} (same settings, same seed). Both count as seeds."
            )
        seen.setdefault(key, run.folder)
    return said


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
