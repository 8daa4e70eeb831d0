"""Docstrings and tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def inline(text: str) -> str:
    """The prose of a docstring as Markdown: code as code, other signs as they are."""
    parts = re.split(r"(``.+?``|`.+?`)", " ".join(text.split()))
    return "".join(
        f"`{part.strip('`')}`" if part.startswith("`") else re.sub(r"([*_<\[\]$])", r"\\\1", part)
        for part in parts
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table. Cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n"


def fenced(text: str, language: str = "text") -> str:
    """A code block."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def shell(command: str, letters: int = 84) -> str:
    """A block with a command, whose lines end before an option.

    >>> print(shell("fedflat run fedavg --rounds 60 --lr 0.05", 32))
    ```sh
    fedflat run fedavg --rounds 60 \\
        --lr 0.05
    ```
    <BLANKLINE>
    """
    first, *options = command.split(" --")
    lines = [first]
    for option in options:
        if len(lines[-1]) + len(option) + 5 > letters:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" --{option}"
    return fenced("\n".join(lines), "sh")


def is_rule(paragraph: str) -> bool:
    """Whether a paragraph of a docstring is an indented block."""
    return all(line.startswith("    ") for line in paragraph.splitlines() if line.strip())
