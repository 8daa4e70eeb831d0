"""Indented blocks of our docstrings are shown as they are: rules and examples."""

from __future__ import annotations

from typing import Any


def literal_blocks(
    app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Mark every indented paragraph that follows a blank line as literal; for autodoc."""
    made: list[str] = []
    inside = False
    for line in lines:
        indented = line.startswith("    ")
        if indented and not inside and made and not made[-1].strip():
            if not "".join(made[-2:-1]).rstrip().endswith("::"):
                made += ["::", ""]
            inside = True
        elif line.strip() and not indented:
            if inside and made[-1].strip():
                made.append("")
            inside = False
        elif indented and made and made[-1].strip() and not made[-1].startswith(" "):
            inside = True  # the text of a definition
        made.append(line)
    lines[:] = made
