"""The navigation of the site is the lists of links in index.md, one group for each heading.

So a reader of the repository sees the same contents as a reader of the site.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ITEM = re.compile(r"^\* \[[^\]]*\]\(([^)#:]+)\.md\)", re.MULTILINE)


def contents(text: str) -> dict[str, list[str]]:
    """The pages under each heading of the second level, without their endings."""
    _, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    groups = {section.partition("\n")[0].strip(): ITEM.findall(section) for section in sections}
    return {heading: pages for heading, pages in groups.items() if pages}


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Append a hidden table of contents to the index for each group."""
    if page != "index":
        return
    for heading, pages in contents(source[0]).items():
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n"
        source[0] += "\n".join(pages) + "\n```\n"
