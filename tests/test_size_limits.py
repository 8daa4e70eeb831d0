"""Functions that fit on a screen, modules with one idea."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fedflat

LINES_OF_A_FUNCTION = 80
LINES_OF_A_MODULE = 450
SOURCES = sorted(Path(fedflat.__file__).parent.rglob("*.py"))


def test_there_is_something_to_measure() -> None:
    assert len(SOURCES) > 40


@pytest.mark.parametrize(
    "path", SOURCES, ids=lambda p: p.relative_to(Path(fedflat.__file__).parent).as_posix()
)
def test_size(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= LINES_OF_A_MODULE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            assert lines <= LINES_OF_A_FUNCTION, f"{node.name} has {lines} lines"
