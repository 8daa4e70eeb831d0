"""The tables of run folders, one for each section, as text, Markdown, LaTeX or CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedflat.errors import RunError
from fedflat.experiments.results.method_labels import Labels
from fedflat.experiments.results.tables import APART, table
from fedflat.report.leaderboard import boards_of, counted
from fedflat.report.load import load_runs
from fedflat.report.run_names import run_names
from fedflat.tasks.headline import common_target


def tables_of(
    folders: Sequence[Path],
    style: str = "text",
    *,
    target: float | str | None = None,
    labels: Labels | None = None,
    columns: Sequence[str] | None = None,
    room: int | None = None,
) -> tuple[str, list[str]]:
    """The tables of these runs and studies, and a sentence for each that could not be read.

    Arguments are those of `table`; ``labels`` are names for methods.
    """
    runs, problems = load_runs(folders)
    if not runs:
        raise RunError(" ".join(["there is no run to print a table of.", *problems]))
    wanted = common_target(target, (run.result.headline for run in runs))
    named = run_names(runs, labels or {})
    results = [replace(run.result, method=one.name) for run, one in zip(runs, named, strict=True)]
    targets = [run.target for run in runs]
    boards, uncertain = boards_of(results, counted(results), targets, wanted)
    sentences = [*problems, *uncertain]
    if style == "csv":
        every = [one for board in boards for one in board.summaries]
        return table(every, None, 1, "csv"), sentences
    prose = [*(labels or {}).values()]
    texts = [
        table(board.summaries, board.target, board.last, style, room, columns, prose)
        for board in boards
    ]
    if len(boards) > 1:
        comment = "% " if style == "latex" else ""
        titles = [f"{comment}{board.title(boards)}" for board in boards]
        texts = [f"{title}\n\n{text}" for title, text in zip(titles, texts, strict=True)]
        texts.insert(0, comment + APART)
    return "\n\n".join(texts), sentences
