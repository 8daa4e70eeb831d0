"""Pages of all public names, by kind: a table by autosummary, then what each name documents."""

from __future__ import annotations

import inspect
from collections import defaultdict

import fedflat
from fedflat.registry.specs import KINDS, known

BASES = "Base classes and messages"
FUNCTIONS = "Running and analysing"
ERRORS = "Errors"
ORDER = [FUNCTIONS, BASES, ERRORS]


def groups() -> dict[str, list[str]]:
    """The public names under the heading of their kind. Methods have cards of their own."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in (name for name in fedflat.__all__ if name != "__version__"):
        thing, entry = getattr(fedflat, name), known(name)
        if entry is not None and entry.make is thing and KINDS[entry.kind]:
            found[KINDS[entry.kind].capitalize()].append(name)
        elif inspect.isclass(thing) and issubclass(thing, Exception):
            found[ERRORS].append(name)
        else:
            found[BASES if inspect.isclass(thing) else FUNCTIONS].append(name)
    found.pop("Methods")
    return {key: found[key] for key in [*ORDER, *sorted(set(found) - set(ORDER))]}


def page(heading: str, names: list[str]) -> str:
    """The page of one group, as reStructuredText."""
    text = f"{heading}\n{'=' * len(heading)}\n\n.. currentmodule:: fedflat\n\n"
    text += ".. autosummary::\n   :nosignatures:\n\n"
    text += "".join(f"   {name}\n" for name in names) + "\n"
    for name in names:
        if inspect.isclass(getattr(fedflat, name)):
            text += f".. autoclass:: {name}\n   :members:\n   :member-order: bysource\n\n"
        else:
            text += f".. autofunction:: {name}\n\n"
    return text


def slug(heading: str) -> str:
    """The file name of a group."""
    return heading.lower().replace(" ", "-")


def pages() -> dict[str, str]:
    """The pages by their file names."""
    return {f"{slug(heading)}.rst": page(heading, names) for heading, names in groups().items()}


def listing() -> str:
    """The table of contents of these pages."""
    links = "\n".join(f"../generated/api/{slug(heading)}" for heading in groups())
    return f"\n```{{toctree}}\n:maxdepth: 1\n\n{links}\n```\n"
