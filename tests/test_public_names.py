"""The public names are what ``fedflat/__init__.py`` lists."""

from __future__ import annotations

import ast
import inspect
import pkgutil
from importlib import import_module

import pytest

import fedflat
from fedflat.registry.specs import registered
from sources import SOURCES, name_of, tree_of


def test_sorted_and_listed_once() -> None:
    first, *names = fedflat.__all__
    assert first == "__version__"
    assert names == sorted(set(names))
    assert dir(fedflat) == sorted(fedflat.__all__)


def test_every_name_is_there() -> None:
    values = {name: getattr(fedflat, name) for name in fedflat.__all__}
    assert [name for name, value in values.items() if value is None] == []
    modules = {name for name, value in values.items() if inspect.ismodule(value)}
    assert [name for name in modules if not callable(values[name])] == []
    silent = [
        name for name, value in values.items() if callable(value) and not inspect.getdoc(value)
    ]
    assert silent == []


def test_names_in_texts_can_be_imported() -> None:
    """Methods, data sets, partitions, models and schedules are the same in Python and in text."""
    for kind in ("method", "data set", "partition", "model", "schedule"):
        for entry in registered(kind):
            if entry.make.__module__.startswith("fedflat."):
                assert getattr(fedflat, entry.name) is entry.make


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'fedflat' has no attribute 'fedavgg'"):
        fedflat.fedavgg  # noqa: B018


def test_no_public_name_is_also_a_module() -> None:
    """Python would put the module in its place once that is imported; `report` is a package that
    can be called."""
    modules = {module.name for module in pkgutil.iter_modules(fedflat.__path__)}
    assert "experiments" in modules
    assert modules & set(fedflat.__all__) == {"report"}
    assert callable(import_module("fedflat.report"))


def test_one_class_name_one_module() -> None:
    """A reader who meets a class name finds one class of that name."""
    defined: dict[str, set[str]] = {}
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined.setdefault(node.name, set()).add(name_of(path))
    assert len(defined) > 300
    assert {name: paths for name, paths in defined.items() if len(paths) > 1} == {}
