"""The page inside a notebook: ``report("runs/mine")``."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from fedflat.analysis.api import folder_of
from fedflat.errors import RunError, number
from fedflat.experiments.results.method_labels import Labels
from fedflat.experiments.results.results import Result
from fedflat.files import write_file
from fedflat.report.collect import collect
from fedflat.report.page import document


class InlineReport:
    """A page that a notebook shows in a frame.

    page
        The page as HTML.
    text
        What is printed where no frame can be shown.
    height
        Height of the frame in pixels.
    """

    def __init__(self, page: str, text: str, height: int) -> None:
        self.page = page
        self.text = text
        self.height = height

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.page)}" title="fedflat report" width="100%" '
            f'height="{self.height}" style="border:1px solid #ddd" '
            'sandbox="allow-scripts allow-downloads"></iframe>'
        )

    def save(self, file: str | Path) -> Path:
        """Write the page, which opens in a browser without a network.

        file
            Name of the file.
        """
        path = Path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, self.page.encode())
        return path


def report(
    *runs: str | Path | Result | Sequence[Result],
    labels: Labels | None = None,
    target: float | str | None = None,
    height: int = 720,
) -> InlineReport:
    """Make the page of runs and studies; a notebook shows it in a frame.

    Returns the page, whose ``save(file)`` writes it.

    runs
        Folders of runs and studies, or results of runs that were given ``out``.
    labels
        Names for methods, such as ``{"fedgloss(...)": "FedGloSS"}``.
    target
        The headline score to reach, as a number or as text; None: that of the study.
    height
        The height of the frame in pixels.
    """
    number("report", "height", height, low=1, whole=True)
    folders: list[Path] = []
    for one in runs:
        each = one if isinstance(one, Sequence) and not isinstance(one, str) else [one]
        folders += [folder_of(run) for run in each]
    collected = collect(folders, target=target, labels=labels)
    if not collected["runs"]:
        raise RunError(" ".join(["there is no run to report on.", *collected["problems"]]))
    return InlineReport(document(collected), collected["text"], height)
