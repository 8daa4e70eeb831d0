"""Attributes that the theme's pages lack for keyboards and screen readers, added after the build.

Blocks of code and tables can be wider than a small screen: the keyboard must reach them to scroll.
Headings of the navigation need a level, and the two side bars a name each. The empty corner of a
table is no header. The page of the search needs a title.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

CHANGES = (
    (r"<pre>", '<pre tabindex="0">'),
    (r'<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    (r'role="heading">', 'role="heading" aria-level="2">'),
    (r'<aside class="sidebar-drawer', '<aside aria-label="All pages" class="sidebar-drawer'),
    (r'<aside class="toc-drawer', '<aside aria-label="On this page" class="toc-drawer'),
    (r'(?<!</h1>)<div id="search-results">', '<h1>Search</h1><div id="search-results">'),
    (r'<th class="(head[^"]*)"><p></p></th>', r'<td class="\1"></td>'),
)
"""What to look for, and what to write in its place, in which it is not found again."""


def accessible(page: str) -> str:
    """The HTML of a page with the attributes; a page that has them is not changed.

    >>> accessible('<pre>x</pre><p class="caption" role="heading">Tutorial</p>')
    '<pre tabindex="0">x</pre><p class="caption" role="heading" aria-level="2">Tutorial</p>'
    """
    for pattern, replacement in CHANGES:
        page = re.sub(pattern, replacement, page)
    return page


def make_accessible(app: Sphinx, error: Exception | None) -> None:
    """Rewrite all pages of a finished build."""
    if error is not None or app.builder.name != "html":
        return
    for file in Path(app.outdir).rglob("*.html"):
        before = file.read_text(encoding="utf-8")
        after = accessible(before)
        if after != before:
            file.write_text(after, encoding="utf-8")
