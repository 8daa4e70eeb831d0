"""The stub that tells type checkers and editors what the lazy package holds."""

from __future__ import annotations

import ast
from pathlib import Path

import fedflat


def test_the_stub_names_every_public_name_at_its_home() -> None:
    source = Path(fedflat.__file__).with_suffix(".pyi").read_text()
    found = {
        (node.module, alias.name)
        for node in ast.parse(source).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name  # only "import x as x" is a public name in a stub
    }
    homes = {(home, name) for home, names in fedflat._HOMES.items() for name in names}
    assert found == homes | {("fedflat.version", "__version__")}
