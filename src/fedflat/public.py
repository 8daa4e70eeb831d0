"""The lists of public names that follow from what is registered and from ``fedflat/__init__.py``.

    python -m fedflat.public       # writes them anew, after a method, a data set, a model or another name was added

``exports.py`` has the names that can be said in text and the modules they are made in, so that
``import fedflat`` need not import those to know them. ``__init__.pyi`` tells type checkers and
editors all public names.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import fedflat
from fedflat.registry.specs import KINDS, registered

INSIDE = (
    "ask",
    "describer",
    "measure",
    "attacker",
    "executor",
    "metric",
    "logger",
    "analysis",
    "command",
)
"""Kinds whose factories are not public names of the package: in Python their classes are, or they
are named in text."""
SAYABLE = Path(__file__).with_name("exports.py")
STUB = Path(__file__).with_name("__init__.pyi")


def sayable() -> str:
    """The text of ``exports.py``."""
    lines = [f'    "{name}": "{home}",' for name, home in _sayable().items()]
    head = '"""Names that can be said in text, and where they are made; made by `python -m fedflat.public`."""'
    return "\n".join([head, "", "SAYABLE = {", *lines, "}", ""])


def stub() -> str:
    """The text of ``__init__.pyi``."""
    named = [(home, name) for name, home in _sayable().items()]
    named += [(home, name) for home, names in vars(fedflat)["_HOMES"].items() for name in names]
    named.append(("fedflat.version", "__version__"))
    lines = [f"from {home} import {name} as {name}" for home, name in sorted(named)]
    head = '"""What the package holds, for type checkers; made by `python -m fedflat.public`."""'
    return "\n".join([head, "", *lines, "", "__all__: list[str]", ""])


def _sayable() -> dict[str, str]:
    """The homes of the sayable names that are ours, by name."""
    found = {}
    for entry in (entry for kind in KINDS if kind not in INSIDE for entry in registered(kind)):
        home = entry.make.__module__
        if entry.plugin is None:
            assert getattr(import_module(home), entry.name) is entry.make, (
                f"{home} must have {entry.name}"
            )
            found[entry.name] = home
    return dict(sorted(found.items()))


if __name__ == "__main__":
    SAYABLE.write_text(sayable())
    STUB.write_text(stub())
