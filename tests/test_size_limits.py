"""Functions that fit on a screen, modules with one idea."""

from __future__ import annotations

import ast

from sources import SOURCES, name_of, tree_of

LINES_OF_A_FUNCTION = 80
LINES_OF_A_MODULE = 450


def test_there_is_something_to_measure() -> None:
    assert len(SOURCES) > 40


def faults(text: str, tree: ast.Module) -> list[str]:
    """What is too long in a module."""
    found = [f"{len(text.splitlines())} lines"] * (len(text.splitlines()) > LINES_OF_A_MODULE)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if lines > LINES_OF_A_FUNCTION:
                found.append(f"{node.name} has {lines} lines")
    return found


def test_size() -> None:
    found = {name_of(path): faults(path.read_text(), tree_of(path)) for path in SOURCES}
    assert {name: long for name, long in found.items() if long} == {}


def test_what_is_too_long_is_found() -> None:
    def found(text: str) -> list[str]:
        return faults(text, ast.parse(text))

    body = "    pass\n" * (LINES_OF_A_FUNCTION - 1)
    assert found(f"class A:\n  def fits():\n{body}") == []
    long = f"async def f():\n{body}    pass\n" + "\n" * 400
    assert found(long) == ["481 lines", "f has 81 lines"]
