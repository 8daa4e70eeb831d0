"""Imports point one way: each package imports only what stands before it here, and no modules
import each other in a circle. Imports inside functions and modules that strings name count too."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import fedflat
from fedflat.registry.builtin_modules import HOMES, KIND_HOMES
from fedflat.registry.specs import KINDS

LAYERS = (
    "version",
    "exports",
    "errors",
    "files",
    "html_page",
    "text_table",
    "plot_style",
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
    "sweeps",
    "cli",
    "public",
    "__main__",
)
ABOVE_THE_CORE = ("papers", "sweeps", "cli", "public", "__main__")
BY_DESIGN = {
    "exports": "lists the modules of public names, which are imported when a name is used",
    "registry.builtin_modules": "lists the packages that register names, which are imported when a "
    "text is read",
    "execution.profiling.categories": "lists functions whose time is counted, and imports none",
}
"""Modules that may name higher packages in strings, and why."""
HOME = Path(fedflat.__file__).parent
RESULTS = Path(__file__).parents[1] / "results"


def module_name(path: Path) -> str:
    """The name of a module without ``fedflat.``; that of a package for its ``__init__``."""
    parts = path.relative_to(HOME).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for path in HOME.rglob("*.py") if path != HOME / "__init__.py"}
PACKAGES = {name for name, path in PATHS.items() if path.name == "__init__.py"}
MODULES = sorted(set(PATHS) - PACKAGES)


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines and modules that are imported there, at the top or when needed, but not for type
    checkers only. ``from x import y`` is both x and x.y."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{one.name}") for one in node.names)
        if isinstance(node, ast.Import):
            yield from ((node.lineno, one.name) for one in node.names)
        yield from imported(node)


def named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines and modules of ours that strings name, docstrings aside: "fedflat.x.y",
    "fedflat.x.y:function", and "fedflat.x." before a part that is filled in."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = re.fullmatch(r"(fedflat(\.\w+)+)(\.|:[\w.]+)?", node.value)
            if match and id(node) not in docstrings:
                yield node.lineno, match[1]


@cache
def imports_of(name: str) -> list[tuple[int, str]]:
    """Lines and modules of ours, without ``fedflat.``, that a module imports or names."""
    tree = ast.parse(PATHS[name].read_text())
    found = [*imported(tree), *(() if name in BY_DESIGN else named(tree))]
    ours = [(line, target.partition(".")[2]) for line, target in found if is_ours(target)]
    return [(line, target) for line, target in ours if target in PATHS and target != name]


def is_ours(target: str) -> bool:
    return target.startswith("fedflat.")


def package_of(name: str) -> str:
    return name.partition(".")[0]


@cache
def graph() -> dict[str, set[str]]:
    """Module -> the modules that it imports; all of a package, if it fills in the name."""
    found: dict[str, set[str]] = {}
    for name in MODULES:
        targets = {target for _, target in imports_of(name)}
        filled = {target for target in targets & PACKAGES if fills_in(name, target)}
        inside = {one for one in MODULES if one.rpartition(".")[0] in filled}
        found[name] = (targets | inside) - PACKAGES - {name}
    return found


def fills_in(name: str, package: str) -> bool:
    """Whether a module makes names of modules in a package."""
    return f'f"fedflat.{package}.{{' in PATHS[name].read_text()


def test_every_package_has_its_place() -> None:
    assert set(map(package_of, PATHS)) <= set(LAYERS)


@pytest.mark.parametrize("package", LAYERS)
def test_nothing_imports_upward(package: str) -> None:
    allowed = LAYERS[: LAYERS.index(package) + 1]
    upward = [
        f"{name}:{line} imports {target}"
        for name in PATHS
        if package_of(name) == package
        for line, target in imports_of(name)
        if package_of(target) not in allowed
    ]
    assert not upward


def test_imports_of_every_kind_are_seen() -> None:
    tree = ast.parse(
        '"""fedflat.errors"""\n'
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from fedflat.core.flat import Model\n"
        "def late():\n"
        "    from fedflat.experiments.train import train\n"
        "    import fedflat.cli.main\n"
        "    import_module('fedflat.report.page')\n"
        "    import_module(f'fedflat.papers.presets.{name}')\n"
        "WHERE = 'fedflat.core.flat:Layout.of'\n"
        "SENTENCE = 'fedflat.errors is a module'\n"
    )
    assert [(line, name) for line, name in imported(tree) if is_ours(name)] == [
        (6, "fedflat.experiments.train"),
        (6, "fedflat.experiments.train.train"),
        (7, "fedflat.cli.main"),
    ]
    assert sorted(named(tree)) == [
        (8, "fedflat.report.page"),
        (9, "fedflat.papers.presets"),
        (10, "fedflat.core.flat"),
    ]


def test_the_exceptions_are_needed_and_name_what_exists() -> None:
    for name in BY_DESIGN.keys() - {"registry.builtin_modules"}:
        allowed = LAYERS[: LAYERS.index(package_of(name)) + 1]
        targets = {target for _, target in named(ast.parse(PATHS[name].read_text()))}
        assert {package_of(target.partition(".")[2]) for target in targets} - set(allowed), name
    homes = {*HOMES, *(home for homes in KIND_HOMES.values() for home in homes)}
    assert homes <= set(PATHS)
    assert {package_of(home) for home in homes} >= {"methods", "experiments"}


def test_the_core_does_not_import_papers() -> None:
    for name in PATHS:
        if package_of(name) not in ABOVE_THE_CORE:
            assert not [to for _, to in imports_of(name) if package_of(to) == "papers"], name


def test_clients_do_not_import_the_server() -> None:
    for name, targets in graph().items():
        if name.startswith("client."):
            assert not [target for target in targets if target.startswith("server.")], name


def test_the_server_does_not_import_data_sets() -> None:
    """What it knows of clients comes from a `ClientRegistry`."""
    opened = ("data.federation", "data.sets.", "data.partitions.")
    for name, targets in graph().items():
        if name.startswith("server."):
            assert not [target for target in targets if target.startswith(opened)], name


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that import each other: those that reach themselves."""
    reach = {module: reached(graph, module) for module in graph}
    found = {
        frozenset(other for other in reach[module] if module in reach.get(other, ()))
        for module in graph
        if module in reach[module]
    }
    return [set(one) for one in found]


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    """All modules that a module imports, and those that they import."""
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


def test_no_modules_import_each_other() -> None:
    assert [sorted(cycle) for cycle in cycles(graph())] == []


def imports_torch(name: str) -> bool:
    """Whether a module imports PyTorch when it is imported itself."""
    body = ast.parse(PATHS[name].read_text()).body
    statements = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    found = imported(ast.Module(body=list(statements), type_ignores=[]))
    return any("torch" in target.split(".") for _, target in found)


def test_results_do_not_import_torch() -> None:
    assert imports_torch("core.flat")
    for name in (name for name in MODULES if name.startswith("experiments.results.")):
        for module in {name, *reached(graph(), name)}:
            assert not imports_torch(module), f"{name} needs {module}"


LIGHT = [
    ["list"],
    *(["list", kind] for kind in [*filter(None, KINDS.values()), "presets"]),
    ["list", "presets", "fedgloss"],
    ["data", "list"],
    ["report", "run"],
    ["reproduce", "table", "--table", "--quiet"],
]
"""Commands that read or list and train nothing."""


def test_commands_that_do_not_train_do_not_import_torch(tmp_path: Path) -> None:
    """One process runs them all and tells after which PyTorch is there."""
    run = {"on": "digits(clients=4)", "rounds": 1, "model": "logistic()", "clients_per_round": 2}
    fedflat.run("fedavg", out=tmp_path / "run", quiet=True, executor="in-process", **run)
    shutil.copytree(RESULTS / "fedfsa-table1", tmp_path / "table")
    code = (
        "import json, sys\n"
        "from fedflat.cli import main\n"
        f"for words in json.loads({json.dumps(json.dumps(LIGHT))}):\n"
        "    assert main(words) == 0, words\n"
        "    assert 'torch' not in sys.modules, words\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    assert 'torch' not in sys.modules\n"
        "main(['list', 'methods', 'fedavg'])\n"
        "assert 'torch' in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
