"""A module that a user names on the command line: ``nets.py:Net`` or ``package.nets:Net``."""

from __future__ import annotations

from typing import Any

from fedflat.errors import SettingError, nearest, shown
from fedflat.registry.plugins import load_plugin, loaded_module


def own_module(text: str | None) -> Any:
    """The class, function or module that a text names; None if there is no text.

    The file is executed, so it must be one that the user trusts. Run folders never name one.
    """
    if text is None:
        return None
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise SettingError(
            f"--module must be FILE:NAME or PACKAGE:NAME, such as nets.py:Net, found {shown(text)}."
        )
    load_plugin(place)
    home = loaded_module(place)
    if not hasattr(home, name):
        known = [other for other in vars(home) if not other.startswith("_")]
        raise SettingError(f"--module: {place} has no {name!r}.{nearest(name, known)}")
    found = getattr(home, name)
    if not callable(found):
        raise SettingError(
            f"--module: {name!r} of {place} must be a module or make one, found {shown(found)}."
        )
    return found
