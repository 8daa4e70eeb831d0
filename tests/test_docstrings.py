"""Every public name has a summary, and documents all its parameters."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from dataclasses import is_dataclass
from functools import cache

import fedflat
from fedflat.registry.specs import known
from fedflat.settings.setting import settings_of

NAMES = [name for name in fedflat.__all__ if name != "__version__"]
NO_PARAMETERS = ("Executor", "Meter", "Stage")
"""Protocols and an enumeration: they are not called."""


@cache
def classes_of(module: str) -> dict[str, ast.ClassDef]:
    """The classes at the top of a module, by name."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


@cache
def fields_with_docstring(cls: type) -> frozenset[str]:
    """The fields of a class, and of its bases, that are followed by a docstring."""
    found = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("fedflat"):
            continue
        tree = classes_of(base.__module__)[base.__name__]
        for field, after in zip(tree.body, tree.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                found.add(field.target.id)
    return frozenset(found)


def pieces(name: str) -> list[type]:
    """The classes that a method is made of. They document its arguments, once for all methods."""
    thing, entry = getattr(fedflat, name), known(name)
    if entry is None or entry.kind != "method":
        return []
    module = sys.modules[thing.__module__]
    own = [one for one in vars(module).values() if inspect.isclass(one)]
    if entry.required or name == "chain":
        return own
    made = entry.make()
    parts = (*made.client, *made.server, *made.averages, made.aggregator, made.topology)
    return [*own, *(type(part) for part in parts if part is not None)]


def undocumented(name: str) -> list[str]:
    """The parameters that are neither in a docstring nor fields with a docstring, of the name
    itself or of what it is made of."""
    thing = getattr(fedflat, name)
    classes = pieces(name) + (list(thing.__mro__[:-1]) if inspect.isclass(thing) else [])
    pages = [inspect.getdoc(one) or "" for one in (thing, *classes)]
    entry = known(name)
    if entry and entry.kind == "method":  # another method of the same paper may document them
        same = vars(sys.modules[thing.__module__]).values()
        pages += [inspect.getdoc(one) or "" for one in same if inspect.isfunction(one)]
    if entry:
        pages += [sys.modules[one.__module__].__doc__ or "" for one in (thing, *classes)]
    fields = set().union(*(fields_with_docstring(one) for one in classes))
    if is_dataclass(thing):  # settings are documented by their help
        fields |= {one.path[-1] for one in settings_of(thing)}
    return [
        one
        for one in inspect.signature(thing).parameters
        if not one.startswith("_")
        and one not in fields
        and not any(re.search(rf"\b{re.escape(one)}\b", page) for page in pages)
    ]


def summary(name: str) -> str:
    return (inspect.getdoc(getattr(fedflat, name)) or "").partition("\n\n")[0].rstrip()


def test_each_has_a_summary_line() -> None:
    summaries = {name: summary(name) for name in NAMES}
    assert {name: one for name, one in summaries.items() if not one.endswith((".", ":"))} == {}


def test_their_parameters_are_documented() -> None:
    assert len(NAMES) > 300
    missing = {name: undocumented(name) for name in NAMES if has_parameters(name)}
    assert {name: parameters for name, parameters in missing.items() if parameters} == {}


def has_parameters(name: str) -> bool:
    thing = getattr(fedflat, name)
    error = inspect.isclass(thing) and issubclass(thing, Exception)
    return callable(thing) and not error and name not in NO_PARAMETERS
