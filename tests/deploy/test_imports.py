"""The rest of fedflat does not know the transport."""

from __future__ import annotations

import ast

from sources import SOURCES, name_of, tree_of


def importers(package: str) -> set[str]:
    """The modules that import a package, at the top or when needed."""
    found = set()
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if any(name.split(".")[0] == package for name in names):
                found.add(name_of(path))
    return found


def test_one_module_knows_the_transport() -> None:
    assert importers("nvflare") == {"deploy/cells.py"}


def test_certificates_and_signatures_are_in_deploy() -> None:
    assert {path.split("/")[0] for path in importers("cryptography")} == {"deploy"}
