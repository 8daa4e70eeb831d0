"""The analyses that are missing for the runs on a page, and the command that makes them."""

from __future__ import annotations

from typing import Any

from fedflat.analysis.analysis import analyses

Document = dict[str, Any]


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
