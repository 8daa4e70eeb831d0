"""Nothing below imports upward: each package imports only what stands before it here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedflat

LAYERS = (
    "version",
    "exports",
    "errors",
    "files",
    "html_page",
    "text_table",
    "registry",
    "core",
    "settings",
    "kernels",
    "models",
    "data",
    "tasks",
    "client",
    "server",
    "composition",
    "topologies",
    "methods",
    "execution",
    "simulation",
    "flatness",
    "experiments",
    "analysis",
    "report",
    "papers",
    "cli",
    "public",
    "__main__",
)
HOME = Path(fedflat.__file__).parent


def package_of(path: Path) -> str:
    return path.relative_to(HOME).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines and packages of ours that are imported there, at the top or when needed, but not for
    type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
        yield from (
            (node.lineno, name.split(".")[1]) for name in names if name.startswith("fedflat.")
        )
        yield from imported(node)


MODULES = [path for path in sorted(HOME.rglob("*.py")) if path != HOME / "__init__.py"]


def test_every_package_has_its_place() -> None:
    assert {package_of(path) for path in MODULES} <= set(LAYERS)


@pytest.mark.parametrize("package", LAYERS)
def test_nothing_imports_upward(package: str) -> None:
    allowed = LAYERS[: LAYERS.index(package) + 1]
    upward = [
        f"{path.relative_to(HOME)}:{line} imports {name}"
        for path in MODULES
        if package_of(path) == package
        for line, name in imported(ast.parse(path.read_text()))
        if name not in allowed
    ]
    assert not upward


def test_an_upward_import_would_be_seen() -> None:
    tree = ast.parse(
        "def late():\n    from fedflat.experiments.train import train\n    import fedflat.cli.main\n"
    )
    assert list(imported(tree)) == [(2, "experiments"), (3, "cli")]
