"""Conversion of NumPy scalars to Python numbers, which print differently and are valid JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any


def plain(value: Any) -> Any:
    """``value`` with NumPy scalars, also those in lists and tuples, as Python numbers.

    >>> import numpy as np
    >>> plain([np.int64(3), np.float64(0.5), np.array(2.0), "fine"])
    [3, 0.5, 2.0, 'fine']
    """
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    return value


class PlainFields:
    """Base of frozen dataclasses that convert NumPy scalars in their fields before other checks."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        check = cls.__dict__.get("__post_init__")
        if check is not None:
            setattr(cls, "__post_init__", _convert_first(check))  # noqa: B010

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            converted = plain(value)
            if converted is not value:
                object.__setattr__(self, field.name, converted)


def _convert_first(check: Callable[[Any], None]) -> Callable[[Any], None]:
    @wraps(check)
    def post_init(self: Any) -> None:
        PlainFields.__post_init__(self)
        check(self)

    return post_init
