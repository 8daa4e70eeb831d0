"""Our drawings become part of the page, so that they follow the theme and not only the system."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from drawings.svg import STYLE, variables

if TYPE_CHECKING:
    from sphinx.application import Sphinx

IMAGE = re.compile(r"^!\[([^\]]*)\]\(((?:\.\./)*drawings/\w+\.svg)\)$", re.MULTILINE)


def inlined(text: str, page: Path) -> str:
    """The text of a page with the drawings in place of the images that name them."""

    def drawing(found: re.Match[str]) -> str:
        svg = (page.parent / found[2]).read_text(encoding="utf-8").replace(STYLE, "")
        svg = re.sub(r"<title>.*?</title>", "", svg)
        svg = svg.replace('role="img"', f'role="img" aria-label="{escape(found[1])}"')
        return " ".join(svg.split("\n"))

    return IMAGE.sub(drawing, text)


def inline_drawings(app: Sphinx, page: str, source: list[str]) -> None:
    """Change the text of one page before it is parsed."""
    source[0] = inlined(source[0], Path(app.env.doc2path(page)))


def write_colours(app: Sphinx, error: Exception | None) -> None:
    """Write the colours of light and dark beside the other styles of the site."""
    if error is None and app.builder.format == "html":
        dark = variables(True)
        Path(app.outdir, "_static", "drawings.css").write_text(
            f"svg.drawing{{{variables(False)}}}\n"
            f'body[data-theme="dark"] svg.drawing{{{dark}}}\n'
            "@media (prefers-color-scheme: dark){"
            f'body:not([data-theme="light"]) svg.drawing{{{dark}}}}}\n',
            encoding="utf-8",
        )
