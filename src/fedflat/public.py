"""The lists of public names that follow from what is registered and from ``fedflat/__init__.py``.

    python -m fedflat.public            # writes them, after a name was added or described differently
    python -m fedflat.public --check    # prints those that are out of date; exit status 1 if there are any

``exports.py`` has the names that texts can use, and their modules, so that
``import fedflat`` need not import those to know them. ``__init__.pyi`` lists all public
names for type checkers and editors. ``cli/listings/`` has what ``fedflat list KIND`` prints, and
``data/files/catalogue.json`` the data sets with their files, so that neither imports PyTorch.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import fedflat
from fedflat.cli.listing import DYNAMIC, LISTINGS, USE, build_listing, list_kinds
from fedflat.data.files.catalogue import FILE as CATALOGUE
from fedflat.data.files.catalogue import catalogue_text
from fedflat.data.files.fetch import entries
from fedflat.registry.specs import KINDS, registered

INSIDE = (
    "instruction",
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
EXPORTS = Path(__file__).with_name("exports.py")
STUB = Path(__file__).with_name("__init__.pyi")


def exports_text() -> str:
    """The text of ``exports.py``."""
    lines = [f'    "{name}": "{home}",' for name, home in _text_names().items()]
    head = (
        '"""Names that texts can use, and their modules; written by `python -m fedflat.public`."""'
    )
    return "\n".join([head, "", "TEXT_NAMES = {", *lines, "}", ""])


def stub() -> str:
    """The text of ``__init__.pyi``."""
    named = [(home, name) for name, home in _text_names().items()]
    named += [(home, name) for home, names in vars(fedflat)["_HOMES"].items() for name in names]
    named.append(("fedflat.version", "__version__"))
    lines = [f"from {home} import {name} as {name}" for home, name in sorted(named)]
    head = '"""What the package holds, for type checkers; made by `python -m fedflat.public`."""'
    return "\n".join([head, "", *lines, "", "__all__: list[str]", ""])


def _text_names() -> dict[str, str]:
    """The modules of fedflat's own names that texts can use, by name."""
    found = {}
    for entry in (entry for kind in KINDS if kind not in INSIDE for entry in registered(kind)):
        home = entry.make.__module__
        if entry.plugin is None:
            assert getattr(import_module(home), entry.name) is entry.make, (
                f"{home} must have {entry.name}"
            )
            found[entry.name] = home
    return dict(sorted(found.items()))


def generated() -> dict[Path, str]:
    """The texts of all generated files."""
    stored = {kind: build_listing(kind) for kind in USE if kind not in DYNAMIC}
    listings = {LISTINGS / f"{kind}.txt": text for kind, text in stored.items()}
    return {
        EXPORTS: exports_text(),
        STUB: stub(),
        CATALOGUE: catalogue_text(entries()),
        LISTINGS / "kinds.txt": list_kinds() + "\n",
        **{path: text + "\n" for path, text in listings.items()},
    }


def stale() -> list[Path]:
    """The generated files that are not as they would be written now."""
    stored = set(LISTINGS.glob("*.txt"))
    texts = generated()
    return sorted(
        path
        for path in stored | set(texts)
        if not path.exists() or path.read_text() != texts.get(path)
    )


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit("\n".join(map(str, stale())) or None)
    for path, text in generated().items():
        path.write_text(text)
