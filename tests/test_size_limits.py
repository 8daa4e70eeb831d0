"""Functions that fit on a screen, modules with one idea."""

from __future__ import annotations

import ast
from pathlib import Path

import fedflat

LINES_OF_A_FUNCTION = 80
LINES_OF_A_MODULE = 450
SOURCES = sorted(Path(fedflat.__file__).parent.rglob("*.py"))


def test_there_is_something_to_measure() -> None:
    assert len(SOURCES) > 40


def faults(path: Path) -> list[str]:
    """What is too long in a module."""
    text = path.read_text()
    found = [f"{len(text.splitlines())} lines"] * (len(text.splitlines()) > LINES_OF_A_MODULE)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if lines > LINES_OF_A_FUNCTION:
                found.append(f"{node.name} has {lines} lines")
    return found


def test_size() -> None:
    home = Path(fedflat.__file__).parent
    found = {path.relative_to(home).as_posix(): faults(path) for path in SOURCES}
    assert {name: long for name, long in found.items() if long} == {}


def test_what_is_too_long_is_found(tmp_path: Path) -> None:
    body = "    pass\n" * (LINES_OF_A_FUNCTION - 1)
    (tmp_path / "module.py").write_text(f"class A:\n  def fits():\n{body}")
    assert faults(tmp_path / "module.py") == []
    (tmp_path / "module.py").write_text(f"async def f():\n{body}    pass\n" + "\n" * 400)
    assert faults(tmp_path / "module.py") == ["481 lines", "f has 81 lines"]
