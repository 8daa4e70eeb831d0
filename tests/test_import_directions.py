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
    "execution",
    "server",
    "composition",
    "topologies",
    "methods",
    "simulation",
    "flatness",
    "experiments",
    "deploy",
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


def package_imports() -> dict[str, set[str]]:
    """Module -> the modules of fedflat that it imports, lazily too, but not for type checkers only."""
    names = {
        "fedflat." + path.relative_to(HOME).with_suffix("").as_posix().replace("/", "."): path
        for path in MODULES
        if path.name != "__init__.py"
    }
    found: dict[str, set[str]] = {}
    for name, path in names.items():
        targets = set(_imported_modules(ast.parse(path.read_text())))
        found[name] = {target for target in targets if target in names and target != name}
    return found


def _imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        yield from _imported_modules(node)


def test_clients_do_not_import_the_server() -> None:
    for module, imports in package_imports().items():
        if module.startswith("fedflat.client."):
            assert not [name for name in imports if name.startswith("fedflat.server.")], module


def test_the_server_does_not_import_data_sets() -> None:
    """What it knows of clients comes from a `ClientRegistry`."""
    for module, imports in package_imports().items():
        if module.startswith("fedflat.server."):
            opened = ("fedflat.data.federation", "fedflat.data.sets.", "fedflat.data.partitions.")
            assert not [name for name in imports if name.startswith(opened)], module


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that import each other: those that reach themselves."""
    reach = {module: _reached(graph, module) for module in graph}
    found = {
        frozenset(other for other in reach[module] if module in reach.get(other, ()))
        for module in graph
        if module in reach[module]
    }
    return [set(one) for one in found]


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = list(graph[start])
    while todo:
        module = todo.pop()
        if module not in seen:
            seen.add(module)
            todo += graph.get(module, ())
    return seen


def test_a_cycle_would_be_seen() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert cycles(graph) == [{"b", "c"}]


def test_cycles_of_modules_are_in_experiments_only() -> None:
    """One is left, around `prepare`. It may become smaller, never larger."""
    for cycle in cycles(package_imports()):
        assert all(module.startswith("fedflat.experiments.") for module in cycle), sorted(cycle)
        assert len(cycle) <= 12, sorted(cycle)
