"""Python's own numbers in place of NumPy's, which print otherwise and are not JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any


def plain(value: Any) -> Any:
    """``value`` with NumPy's single numbers, also those in lists and tuples, made Python's.

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
    """A frozen dataclass that makes the numbers in its fields plain before it looks at them."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        own = cls.__dict__.get("__post_init__")
        if own is not None:
            setattr(cls, "__post_init__", _after_plain(own))  # noqa: B010

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            given = getattr(self, field.name)
            made = plain(given)
            if made is not given:
                object.__setattr__(self, field.name, made)


def _after_plain(check: Callable[[Any], None]) -> Callable[[Any], None]:
    @wraps(check)
    def post_init(self: Any) -> None:
        PlainFields.__post_init__(self)
        check(self)

    return post_init
