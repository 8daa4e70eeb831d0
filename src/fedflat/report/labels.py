"""Labels for the models of planes and lines: their methods, not their folders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedflat.report.load import ReportRun

Named = tuple[str, str]
"""The method of a model, and which of the method's models it is."""
_MODEL = re.compile(r"(?P<folder>.*):(?P<model>[^:/]*?)(?P<round> in round \d+)?", re.DOTALL)


class RunLabels:
    """The runs of a page, to be found by what an analysis calls them."""

    def __init__(self, runs: Sequence[ReportRun], labels: Sequence[str]) -> None:
        self._runs = list(zip(runs, labels, strict=True))

    def plane(self, number: int, result: dict[str, Any]) -> dict[str, Any]:
        """A title for a plane stored with a run, and its models by their methods."""
        marks = [mark["name"] for mark in result["marks"]]
        texts = result["models"] if len(result["models"]) == len(marks) else marks
        named = [self._named(number, text, mark) for text, mark in zip(texts, marks, strict=True)]
        full = _full(named)
        marked = [{**mark, "name": name} for mark, name in zip(result["marks"], full, strict=True)]
        return {**result, "marks": marked, "title": _title(named)}

    def line(self, number: int, result: dict[str, Any]) -> dict[str, Any]:
        """A title for a line stored with a run, and its two ends by their methods."""
        ends = [self._named(number, result[end], result[end]) for end in ("b", "a")]
        b, a = (
            _full(ends)
            if len({method for method, _ in ends}) == 1
            else [method for method, _ in ends]
        )
        return {**result, "a": a, "b": b, "title": f"{b} to {a}"}

    def _named(self, number: int, text: str, otherwise: str) -> Named:
        if text.startswith("client "):
            return self._runs[number][1], text
        found = _MODEL.fullmatch(text)
        run = self._run(found["folder"]) if found else None
        if found is None or run is None:
            return otherwise, ""
        model = "" if found["model"] == "server" else f" {found['model']}"
        return run[1], f"seed {run[0].result.seed}{model}{found['round'] or ''}"

    def _run(self, folder: str) -> tuple[ReportRun, str] | None:
        """The run in this folder, or else the only one in a folder of that name in a folder of that
        name."""
        path = Path(folder)
        for run in self._runs:
            if (
                run[0].folder in (path, path.absolute())
                or run[0].folder.absolute() == path.absolute()
            ):
                return run
        ends = [
            run
            for run in self._runs
            if run[0].folder.absolute().parts[-2:] == path.absolute().parts[-2:]
        ]
        return ends[0] if len(ends) == 1 else None


def _full(named: Sequence[Named]) -> list[str]:
    return [", ".join(filter(None, one)) for one in named]


def _title(named: Sequence[Named]) -> str:
    """The methods; of one method alone, which of its models.

    >>> _title([("fedavg()", "seed 0"), ("fedsam()", "seed 0"), ("fedsam()", "seed 1")])
    'fedavg() and fedsam()'
    >>> _title([("fedavg()", "client 3"), ("fedavg()", "client 5"), ("fedavg()", "client 7")])
    'fedavg(): client 3, client 5 and client 7'
    """
    methods = list(dict.fromkeys(method for method, _ in named))
    if len(methods) == 1:
        details = _listed([detail for _, detail in named if detail])
        return f"{methods[0]}: {details}" if details else methods[0]
    return _listed(methods)


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
