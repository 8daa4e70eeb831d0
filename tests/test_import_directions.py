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
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import TypeGuard, cast

import pytest

import fedflat
import sources
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
    "registry.builtin_modules": "imports the packages that register names, when a text is read",
    "registry.plugins": "imports the modules of users",
    "cli.parser": "imports the commands, which are found by being there",
    "cli.main": "imports what a command lists in LOADS, a name in its module",
    "public": "imports the modules of public names, to list them",
    "execution.profiling.categories": "lists functions whose time is counted, and imports none",
    "experiments.results.results": "Result.analyse calls fedflat.analyse",
    "data.federation": "DataSpec.show calls fedflat.show_data",
}
"""Modules that may name higher packages in strings or import what a test cannot read, and why."""
HOME = Path(fedflat.__file__).parent
RESULTS = Path(__file__).parents[1] / "results"


def module_name(path: Path) -> str:
    """The name of a module without ``fedflat.``; that of a package for its ``__init__``."""
    parts = path.relative_to(HOME).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for path in HOME.rglob("*.py") if path != HOME / "__init__.py"}
PACKAGES = {name for name, path in PATHS.items() if path.name == "__init__.py"}
MODULES = sorted(set(PATHS) - PACKAGES)
HOME_OF: dict[str, str] = vars(fedflat)["_HOME"]
"""Module of each public name."""


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines and modules that are imported there, at the top or when needed, but not for type
    checkers only. ``from x import y`` is both x and x.y; so is ``fedflat.y`` after ``import
    fedflat``."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write the whole name of the module"
            assert node.module
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{one.name}") for one in node.names)
        if isinstance(node, ast.Import):
            yield from ((node.lineno, one.name) for one in node.names)
        if isinstance(node, ast.Attribute) and name_of(node.value) == "fedflat":
            yield node.lineno, f"fedflat.{node.attr}"
        yield from imported(node)


def named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines and modules that strings name, docstrings aside: "fedflat.x.y",
    "fedflat.x.y:function", "fedflat.x." before a part that is filled in, and the arguments of
    functions that import."""
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
        if is_import_call(node):
            yield node.lineno, module_of(node)


def is_import_call(node: ast.AST) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else name_of(node.func)
    return name.endswith(("import_module", "__import__"))


def name_of(node: ast.AST) -> str:
    """The name that an expression is, or nothing."""
    return node.id if isinstance(node, ast.Name) else ""


UNREADABLE = "?"


def module_of(call: ast.Call) -> str:
    """The module that a call imports, or the package in which it is; `UNREADABLE` if neither is
    written there."""
    first = call.args[0] if len(call.args) == 1 and not call.keywords else None
    if isinstance(first, ast.JoinedStr):
        first = first.values[0]
        if isinstance(first, ast.Constant) and re.fullmatch(r"(\w+\.){2,}", str(first.value)):
            return str(first.value)[:-1]
    elif isinstance(first, ast.Constant) and first.value != "fedflat":
        return str(first.value)
    return UNREADABLE


def tree_of(name: str) -> ast.Module:
    return sources.tree_of(PATHS[name])


@cache
def imports_of(name: str) -> list[tuple[int, str]]:
    """Lines and modules of ours, without ``fedflat.``, that a module imports or names."""
    found = [*imported(tree_of(name)), *(() if name in BY_DESIGN else named(tree_of(name)))]
    ours = [(line, without_root(target)) for line, target in found if is_ours(target)]
    return [(line, target) for line, target in ours if target in PATHS and target != name]


def without_root(target: str) -> str:
    """A module without ``fedflat.``; that of a public name for ``fedflat.name``."""
    name = target.partition(".")[2]
    return name if name in PATHS else HOME_OF.get(name, target).partition(".")[2]


def is_ours(target: str) -> bool:
    return target.startswith("fedflat.")


def package_of(name: str) -> str:
    return name.partition(".")[0]


@cache
def graph() -> dict[str, set[str]]:
    """Module -> the modules that it imports; all of a package, if it fills in the name. A package
    is its ``__init__``, which is imported before its modules."""
    return {name: set(_imports(name)) - {name} for name in PATHS}


def _imports(name: str) -> Iterator[str]:
    targets = {target for _, target in imports_of(name)}
    of_public_names = {
        package for package in targets & PACKAGES if not imports_inside(name, package)
    }
    for target in (targets - PACKAGES) | of_public_names:
        yield target
        yield from (one for one in packages_around(target) if one not in packages_around(name))
    for package in targets & PACKAGES:
        if fills_in(name, package):
            yield from (one for one in MODULES if one.rpartition(".")[0] == package)


def packages_around(name: str) -> set[str]:
    """The packages that a module is in, and itself if it is one."""
    parts = name.split(".")
    return PACKAGES & {".".join(parts[: i + 1]) for i in range(len(parts))}


def imports_inside(name: str, package: str) -> bool:
    """Whether a module imports only modules of a package and none of its own names."""
    names = {
        f"{node.module}.{one.name}".partition(".")[2]
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.ImportFrom) and node.module == f"fedflat.{package}"
        for one in node.names
    }
    return names <= set(PATHS)


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
        "    fedflat.analyse()\n"
        "WHERE = 'fedflat.core.flat:Layout.of'\n"
        "SENTENCE = 'fedflat.errors is a module'\n"
        "importlib.import_module('torch')\n"
    )
    assert [(line, name) for line, name in imported(tree) if is_ours(name)] == [
        (6, "fedflat.experiments.train"),
        (6, "fedflat.experiments.train.train"),
        (7, "fedflat.cli.main"),
        (10, "fedflat.analyse"),
    ]
    assert without_root("fedflat.analyse") == "analysis.api"
    assert sorted(set(named(tree))) == [
        (8, "fedflat.report.page"),
        (9, "fedflat.papers.presets"),
        (11, "fedflat.core.flat"),
        (13, "torch"),
    ]
    with pytest.raises(AssertionError, match="write the whole name"):
        list(imported(ast.parse("from . import page")))


@pytest.mark.parametrize(
    "argument",
    [
        "name",
        "'fedflat'",
        "'fedflat.' + name",
        "f'fedflat.{name}'",
        "f'{name}.x'",
        "'.x', 'fedflat.y'",
    ],
)
def test_an_import_that_cannot_be_read_is_seen(argument: str) -> None:
    assert UNREADABLE in [name for _, name in named(ast.parse(f"import_module({argument})"))]


def test_every_import_can_be_read() -> None:
    unreadable = [
        f"{name}:{line}"
        for name in PATHS
        if name not in BY_DESIGN
        for line, target in named(tree_of(name))
        if target == UNREADABLE
    ]
    assert not unreadable


def test_the_exceptions_are_needed_and_name_what_exists() -> None:
    for name in BY_DESIGN:
        allowed = LAYERS[: LAYERS.index(package_of(name)) + 1]
        targets = {target for _, target in named(tree_of(name))}
        above = {package_of(one.partition(".")[2]) for one in targets if is_ours(one)} - set(
            allowed
        )
        assert above or UNREADABLE in targets, name
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


def imports_torch(tree: ast.AST) -> bool:
    found = [*imported(tree), *named(tree)]
    return any(target.partition(".")[0] == "torch" for _, target in found)


def at_the_top(tree: ast.Module) -> ast.Module:
    """A module without its functions: what runs when it is imported."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef

    class Without(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST | None:
            return None if isinstance(node, functions) else self.generic_visit(node)

    return cast(ast.Module, Without().visit(deepcopy(tree)))


def test_results_do_not_import_torch() -> None:
    """Not even in a function; modules that they import only in functions that they do not call."""
    assert imports_torch(at_the_top(tree_of("core.flat")))
    for name in (name for name in PATHS if name.startswith("experiments.results")):
        assert not imports_torch(tree_of(name)), name
        for module in reached(graph(), name):
            assert not imports_torch(at_the_top(tree_of(module))), f"{name} needs {module}"


def test_an_import_of_torch_is_seen() -> None:
    late = ast.parse("def function():\n    import torch.nn\n")
    assert imports_torch(late)
    assert not imports_torch(at_the_top(late))
    assert imports_torch(at_the_top(ast.parse("try:\n    from torch import nn\nfinally: ...")))
    assert imports_torch(ast.parse("import_module('torch.nn')"))


LIGHT = [
    ["list"],
    *(["list", kind] for kind in [*filter(None, KINDS.values()), "presets"]),
    ["list", "presets", "fedgloss"],
    ["data", "list"],
    ["report", "run"],
    ["table", "run"],
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
