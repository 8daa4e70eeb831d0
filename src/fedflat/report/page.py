"""The page: what was collected, in one HTML file."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from fedflat.errors import RunError
from fedflat.experiments.results.method_labels import Labels
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
