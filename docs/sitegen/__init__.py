"""Our Sphinx extension: what of the site is made at build time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sitegen import links, navigation

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", navigation.add_contents)
    app.connect("source-read", links.leave_out)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
