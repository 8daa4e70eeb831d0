"""What benchmarks import from fedflat exists. Benchmarks themselves run too seldom to show it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FILES = sorted(file for file in BENCHMARKS.rglob("*.py") if ".venvs" not in file.parts)
"""All but those of the peers' environments."""


def imports(source: str) -> list[str]:
    """The statements by which a file imports from fedflat."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return [ast.unparse(node) for node in found if (node.module or "").split(".")[0] == "fedflat"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_names_of_fedflat(file: Path) -> None:
    for statement in imports(file.read_text()):
        exec(statement, {})


def test_a_name_that_is_gone_is_noticed() -> None:
    [statement] = imports("import torch\nfrom fedflat.experiments.train import Missing, train\n")
    with pytest.raises(ImportError, match="Missing"):
        exec(statement, {})
