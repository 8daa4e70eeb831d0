"""Our Sphinx extension: what of the site is made at build time.

``docs/generated/`` has the pages that follow from the code: a card for each method, the public
names, the commands. It is not part of the repository.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sitegen import (
    accessibility,
    api,
    cards,
    commands,
    docstrings,
    drawings,
    gallery,
    links,
    navigation,
)

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LISTINGS = {
    "reference/methods": cards.listing,
    "reference/api": api.listing,
    "reference/commands": commands.listing,
    "gallery/index": gallery.listing,
}
"""Pages to which generated text is appended: lists of pages, the scripts of the gallery."""


def write_all(folder: Path, pages: dict[str, str]) -> list[Path]:
    """Write pages into a folder. Those that have not changed are not read by Sphinx again."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return [folder / name for name in pages]


def generate(app: Sphinx) -> None:
    """Write the generated pages."""
    folder = Path(app.srcdir, "generated")
    before = set(folder.rglob("*.*"))
    written = {
        *write_all(folder / "methods", cards.pages()),
        *write_all(folder / "api", api.pages()),
        *write_all(folder / "commands", commands.pages()),
    }
    for gone in before - written:
        gone.unlink()


def append_listing(app: Sphinx, page: str, source: list[str]) -> None:
    """Append generated text to the page that introduces it."""
    if page in LISTINGS:
        source[0] += LISTINGS[page]()


def outdated(app: Sphinx, *changes: object) -> list[str]:
    """Pages that are read in every build: their lists may have changed though their files have
    not."""
    return list(LISTINGS)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", generate)
    app.connect("env-get-outdated", outdated)
    app.connect("autodoc-process-docstring", docstrings.literal_blocks)
    app.connect("source-read", navigation.add_contents)
    app.connect("source-read", append_listing)
    app.connect("source-read", drawings.inline_drawings)
    app.connect("source-read", links.leave_out)
    app.connect("build-finished", drawings.write_colours)
    app.connect("build-finished", accessibility.make_accessible)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
