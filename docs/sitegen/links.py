"""Links from a page to files of the repository that are no part of the site become plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)\s]*)\)")


def without_repository_links(text: str, page: Path, site: Path) -> str:
    """The text of a page of the site; links that leave the folder of the site lose their target.

    Args:
        text: the Markdown of the page.
        page: the file.
        site: the folder of all pages.
    """

    def plain(found: re.Match[str]) -> str:
        target = (page.parent / found[2].partition("#")[0]).resolve()
        return found[0] if target.is_relative_to(site.resolve()) else found[1]

    return LINK.sub(plain, text)


def leave_out(app: Sphinx, page: str, source: list[str]) -> None:
    """Change the text of one page before it is parsed."""
    source[0] = without_repository_links(source[0], Path(app.env.doc2path(page)), Path(app.srcdir))
