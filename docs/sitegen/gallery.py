"""The gallery: every script of ``docs/gallery`` with its figure, its description and its code."""

from __future__ import annotations

import ast
from pathlib import Path

from sitegen.markdown import inline

FOLDER = Path(__file__).parents[1] / "gallery"


def scripts() -> list[Path]:
    """The scripts, by name."""
    return sorted(FOLDER.glob("*.py"))


def section(script: Path) -> str:
    """The Markdown of one script: heading and text are those of its docstring."""
    doc = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    title, _, text = doc.partition("\n\n")
    return (
        f"\n## {title.rstrip('.')}\n\n{inline(text)}\n\n"
        f"![{title}]({script.stem}.png)\n\n"
        f"<details><summary>Code: {script.name}</summary>\n\n"
        f"```{{literalinclude}} {script.name}\n:language: python\n```\n\n</details>\n"
    )


def listing() -> str:
    """All scripts."""
    return "".join(map(section, scripts()))
