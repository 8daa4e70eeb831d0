"""The page: what was collected, in one HTML file, or inside a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from fedflat.analysis.api import folder_of
from fedflat.errors import RunError, number
from fedflat.experiments.results.results import Result
from fedflat.experiments.results.scenario import Labels
from fedflat.files import unwritable, write_file
from fedflat.html_page import one_page
from fedflat.report.collect import Document, collect

STYLES = ("page.css",)
FIRST_SCRIPT, LAST_SCRIPT = "drawing.js", "page.js"
"""What every other script uses, and what draws the page; those between may be in any order."""

_BODY = """<noscript><p>The charts of this page are drawn by its own script, which is switched off. The results as \
text:</p>
<pre>{text}</pre></noscript>"""


def _scripts() -> list[str]:
    """Return the scripts in the folder "assets", in the order in which they are loaded."""
    names = {path.name for path in files("fedflat.report").joinpath("assets").iterdir()}
    others = sorted(name for name in names if name.endswith(".js"))
    return [
        FIRST_SCRIPT,
        *(name for name in others if name not in (FIRST_SCRIPT, LAST_SCRIPT)),
        LAST_SCRIPT,
    ]


def document(collected: Document, live: bool = False) -> str:
    """Return the collected document as a page; a live page asks ``data.json`` beside it for
    news."""
    return one_page(
        collected["title"],
        _BODY.format(text=html.escape(collected["text"])),
        {**collected, "live": live},
        package="fedflat.report",
        styles=STYLES,
        scripts=_scripts(),
        live=live,
    )


def page(folders: Sequence[Path], live: bool = False) -> str:
    """The page of these runs and studies."""
    return document(collect(folders), live)


def write_report(
    folders: Sequence[Path],
    out: Path,
    *,
    figures: Path | None = None,
    formats: Sequence[str] = ("png", "pdf", "svg"),
    target: float | str | None = None,
    labels: Labels | None = None,
    columns: int | None = None,
) -> list[str]:
    """Write the page of these runs to ``out``, and figures into the folder ``figures``; give what
    is missing.

    folders
        Run and study folders.
    formats
        File types of the figures.
    target
        The headline score to reach, as a number or as text; None: that of the study.
    labels
        Names for methods, such as ``{"fedgloss(...)": "FedGloSS"}``.
    columns
        How many columns of a paper all figures are wide: 1 (3.25 inches) or 2 (6.75 inches); None:
        as many as each needs.
    """
    collected = collect(folders, target=target, labels=labels)
    if not collected["runs"]:
        raise RunError(" ".join(["there is no run to report on.", *collected["problems"]]))
    if out.is_dir():
        raise RunError(
            f"{out} is a folder: the page needs the name of a file, such as {out / 'report.html'}."
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(out, error) from error
    write_file(out, document(collected).encode())
    sentences = [*collected["problems"], *collected["missing"]]
    if figures is not None:
        from fedflat.report.figures import draw_figures

        sentences += draw_figures(collected, figures, formats, columns)
    return sentences


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
