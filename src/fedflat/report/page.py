"""The page: the document, our style and our scripts in one HTML file that asks no network for anything."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedflat.errors import RunError
from fedflat.files import unwritable, write_file
from fedflat.report.collect import Document, collect

STYLES = ("page.css",)
SCRIPTS = ("drawing.js", "charts.js", "maps.js", "surface.js", "results.js", "analyses.js", "page.js")

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'; img-src data:; connect-src {connect}">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="fedflat {version}">
<link rel="icon" href="data:,">
<title>{title} · fedflat</title>
<style>
{style}
</style>
</head>
<body>
<noscript><p>The charts of this page are drawn by its own script, which is switched off. The results as text:</p>
<pre>{text}</pre></noscript>
<script type="application/json" id="document">{data}</script>
<script>
{script}
</script>
</body>
</html>
"""


def document(collected: Document, live: bool = False) -> str:
    """What was collected as a page; a live one asks ``data.json`` beside it for news."""
    return _PAGE.format(
        connect="'self'" if live else "'none'",
        version=html.escape(str(collected["fedflat"])),
        title=html.escape(collected["title"]),
        text=html.escape(collected["text"]),
        style="\n".join(map(_asset, STYLES)),
        script="\n".join(map(_asset, SCRIPTS)),
        data=_embedded({**collected, "live": live}),
    )


def page(folders: Sequence[Path], live: bool = False) -> str:
    """The page of these runs and studies."""
    return document(collect(folders), live)


def write_report(
    folders: Sequence[Path], out: Path, *, figures: Path | None = None,
    formats: Sequence[str] = ("png", "pdf", "svg"), target: float | None = None,
) -> list[str]:  # fmt: skip
    """Write the page of these runs to ``out``, and figures into the folder ``figures``; give what is missing."""
    collected = collect(folders, target=target)
    if not collected["runs"]:
        raise RunError(" ".join(["there is no run to report on.", *collected["problems"]]))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(out, error) from error
    write_file(out, document(collected).encode())
    said = [*collected["problems"], *collected["missing"]]
    if figures is not None:
        from fedflat.report.figures import draw_figures

        said += draw_figures(collected, figures, formats)
    return said


def _asset(name: str) -> str:
    return files("fedflat.report").joinpath("assets", name).read_text(encoding="utf-8")


def _embedded(value: Any) -> str:
    """JSON that cannot end the element it stands in, whatever a method is called."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
