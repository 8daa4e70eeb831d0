"""The code blocks of the README and of all pages, and the commands that their shell blocks run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = {"_build", "generated"}
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in DOCS.rglob("*.md") if not MADE & set(page.parts)),
]
NOT_RUN = re.compile(r"^\s*# not run in the tests: \S.*", re.MULTILINE)
"""The reason why a block is only read, in the block itself."""
RECORD = r"""
record() { { printf '%s\0' "$@"; printf '\n'; } >> "$RECORD"; }
fedflat() { record fedflat "$@"; }
command_not_found_handle() { record "$@"; }
PATH=/nonexistent
cd() { :; }
.() { :; }
source() { :; }
"""
"""Bash reads the blocks: loops, variables, quotes and continued lines mean what they mean there."""


class Block(NamedTuple):
    """A code block: its language and its text."""

    language: str
    code: str

    @property
    def runs(self) -> bool:
        return NOT_RUN.search(self.code) is None

    @property
    def file(self) -> str | None:
        """The file that a Python block is, if its first line names one."""
        found = re.match(r"# (\w+\.py)\n", self.code)
        return found[1] if found else None


def blocks(page: Path) -> list[Block]:
    """All code blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"^```(\S*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [Block(language, code) for language, code in found]


def commands(page_blocks: list[Block], folder: Path) -> list[list[list[str]]]:
    """The words of every command of each block. Nothing is run.

    Variables of a shell block hold in later ones. A block in another language has no commands.
    """
    record = folder / "record"
    record.write_bytes(b"")
    shell = [block.code if block.language in ("sh", "bash") else "" for block in page_blocks]
    done = subprocess.run(
        [
            "bash",
            "--norc",
            "-c",
            RECORD + "\n".join(f"{_alone(code)}\nrecord END" for code in shell),
        ],
        env={"RECORD": str(record)},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert "syntax error" not in done.stderr, done.stderr
    found: list[list[list[str]]] = [[]]
    for line in record.read_bytes().split(b"\0\n")[:-1]:
        words = [word.decode() for word in line.split(b"\0")]
        if words == ["END"]:
            found.append([])
        else:
            found[-1].append(words)
    assert len(found) == len(page_blocks) + 1
    return found[:-1]


def _alone(code: str) -> str:
    """A whole script runs in a shell of its own: it may end it."""
    return f"(\n{code}\n)" if code.startswith("#!") else code
