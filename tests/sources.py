"""The modules of the package, each read and parsed once for all tests of a process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import fedflat

HOME = Path(fedflat.__file__).parent
SOURCES = sorted(HOME.rglob("*.py"))


def name_of(path: Path) -> str:
    """The path within the package, such as ``core/flat.py``."""
    return path.relative_to(HOME).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(path.read_text())
