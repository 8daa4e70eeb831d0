"""A small schema language for JSON files.

A schema has the shape of the value it describes:

    str, int, float, bool, object    a text, a whole number, a number, true or false, anything
    None                             null; NaN and infinity are written as null
    {"a", "b"}                       one of these texts
    (schema, schema)                 one or the other
    [schema]                         a list of such values
    {"x": schema, "y?": schema}      an object with these names, the second optional;
                                     "*" stands for all other names
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedflat.errors import RunError
from fedflat.files import Damaged, read_json

Schema = Any
LARGEST = 2**63
"""Whole numbers of this size and above count as damage."""
NUMBER = (float, None)
"""A measurement."""


def check(value: Any, schema: Schema, at: str = "") -> None:
    """Raise `Damaged`, with the field's name and what was found, if ``value`` does not match.

    >>> check({"x": [1, 2]}, {"x": [int]})
    >>> check({"x": [1, "2"]}, {"x": [int]})
    Traceback (most recent call last):
        ...
    fedflat.files.Damaged: x[1] must be a whole number, found '2'
    """
    alternatives = list(_alternatives(schema))
    for alternative in alternatives:
        if _fits(value, alternative):
            break
    else:
        wanted = " or ".join(map(_describe, alternatives))
        raise Damaged(f"{at or 'it'} must be {wanted}, found {reprlib.repr(value)}")
    if isinstance(alternative, list):
        for place, inner in enumerate(value):
            check(inner, alternative[0], f"{at}[{place}]")
    elif isinstance(alternative, dict):
        _check_names(value, alternative, at)


def _alternatives(schema: Schema) -> Iterator[Schema]:
    """The kinds of values of which one must fit."""
    for one in schema if isinstance(schema, tuple) else ():
        yield from _alternatives(one)
    if not isinstance(schema, tuple):
        yield schema


def _check_names(value: dict[str, Any], schema: dict[str, Schema], at: str) -> None:
    prefix = f"{at}." if at else ""
    known = {name.removesuffix("?"): inner for name, inner in schema.items() if name != "*"}
    for name in known:
        if name not in value and name in schema:
            raise Damaged(f"{prefix}{name} is missing")
    for name, inner in value.items():
        if name in known:
            check(inner, known[name], f"{prefix}{name}")
        elif "*" in schema:
            check(inner, schema["*"], f"{prefix}{name}")
        else:
            raise Damaged(f"{prefix}{reprlib.repr(name)[1:-1]} is not known to this version")


def _fits(value: object, schema: Schema) -> bool:
    """True if the type matches; contents are checked by the caller."""
    if schema is object:
        return True
    if schema is None:
        return value is None
    if isinstance(schema, set):
        return isinstance(value, str) and value in schema
    if isinstance(schema, list | dict):
        return isinstance(value, type(schema))
    if isinstance(value, bool) and schema is not bool:
        return False
    if isinstance(value, int) and schema in (int, float):
        return abs(value) < LARGEST
    return isinstance(value, schema)


def _describe(schema: Schema) -> str:
    if isinstance(schema, set):
        return " or ".join(map(repr, sorted(schema)))
    if isinstance(schema, list | dict):
        return "a list" if isinstance(schema, list) else "an object"
    return _TYPE_NAMES[schema]


_TYPE_NAMES = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    None: "null",
}


def read_checked(path: Path, schema: Schema, advice: str) -> Any:
    """Read and check a JSON file. The error for a wrong file ends in ``advice``."""
    try:
        content = read_json(path)
        check(content, schema)
    except Damaged as error:
        raise damaged(path, error, advice) from None
    return content


def damaged(path: Path, why: object, advice: str) -> RunError:
    """The error for a file with unexpected content."""
    return RunError(f"{path} is damaged ({why}). {advice}")
