"""The arguments of a method or another registered name, and what its documentation says of each."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from fedflat.registry.specs import RegisteredName

ENTRY = r"^(?:\w+, )*{name}(?:, \w+)*\n((?:    .*\n?)+)"
ROW = r"^(?:\w+, )*{name}(?:, \w+)* {{2,}}(\S.*)$"
"""The two forms in which a docstring defines a name: indented below it, and beside it."""


class Argument(NamedTuple):
    """One argument: name, default ("" if it is required) and meaning."""

    name: str
    default: str
    meaning: str


def parts(entry: RegisteredName) -> list[type]:
    """The classes of the pieces, averages, aggregator and topology of a method."""
    if entry.kind != "method" or entry.required or entry.name == "chain":
        return []
    made = entry.make()
    found = (*made.client, *made.server, *made.averages, made.aggregator, made.topology)
    return [type(part) for part in found if part is not None]


@cache
def field_docs(cls: type) -> dict[str, str]:
    """The docstrings after the fields of a class and of its bases."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith("fedflat"):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for field, after in zip(tree.body, tree.body[1:], strict=False):
            match field, after:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = " ".join(text.split())
    return found


def arguments(entry: RegisteredName) -> list[Argument]:
    """All arguments of a registered name, in order."""
    return [
        Argument(
            one.name,
            "" if one.default is one.empty else repr(one.default),
            meaning(entry, one.name),
        )
        for one in entry.signature.parameters.values()
    ]


def meaning(entry: RegisteredName, name: str) -> str:
    """What is written about one argument: where it is defined, or else the sentences that use
    it."""
    return next((text for text in _candidates(entry, name) if text), "")


def _candidates(entry: RegisteredName, name: str) -> Iterator[str]:
    classes = [entry.make] if inspect.isclass(entry.make) else []
    classes += parts(entry)
    bases = [
        base for cls in classes for base in cls.__mro__ if base.__module__.startswith("fedflat")
    ]
    module = sys.modules[entry.make.__module__]
    beside = [
        one
        for one in vars(module).values()
        if inspect.isfunction(one) or (inspect.isclass(one) and one.__module__ == module.__name__)
    ]
    own = inspect.getdoc(entry.make) or ""
    yield _entry(own, name)
    for cls in bases:
        yield _entry(inspect.getdoc(cls) or "", name)
        yield field_docs(cls).get(name, "")
    yield _sentences(own, name)
    for cls in bases:
        yield _sentences(inspect.getdoc(cls) or "", name)
    yield _sentences(module.__doc__ or "", name)
    for other in beside:
        yield _entry(inspect.getdoc(other) or "", name)
        if inspect.isclass(other):
            yield field_docs(other).get(name, "")
        yield _sentences(inspect.getdoc(other) or "", name)
    for cls in bases:
        yield _sentences(sys.modules[cls.__module__].__doc__ or "", name)
    docs = [module.__doc__ or "", *(inspect.getdoc(cls) or "" for cls in bases)]
    docs += [sys.modules[cls.__module__].__doc__ or "" for cls in bases]
    if any(re.search(rf"\b{re.escape(name)}\b", doc) for doc in docs):
        yield "a symbol of the rule"


def _entry(doc: str, name: str) -> str:
    found = re.search(ENTRY.format(name=re.escape(name)), doc, re.MULTILINE)
    found = found or re.search(ROW.format(name=re.escape(name)), doc, re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def _sentences(doc: str, name: str) -> str:
    """The sentences of the prose that name the argument in code."""
    prose = [p for p in doc.split("\n\n") if not p.startswith("    ")]
    sentences = [
        one
        for paragraph in prose
        for one in re.split(r"(?<=[.;]) (?=[A-Z`\"])", " ".join(paragraph.split()))
    ]
    named = [one for one in sentences if re.search(rf"``{re.escape(name)}\b", one)]
    return " ".join(named)
