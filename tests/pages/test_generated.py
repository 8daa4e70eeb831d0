"""What the site is generated from: curves, drawings, cards, the pages of names and commands."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import fedflat
from fedflat.cli.parser import build
from fedflat.registry.specs import known, parse

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module", autouse=True)
def _importable() -> object:
    sys.path.insert(0, str(DOCS))
    yield
    sys.path.remove(str(DOCS))


def test_curves_are_those_of_the_commands() -> None:
    """Each method has a curve that its command of today would make, in form."""
    import curves

    stored, parser = json.loads(curves.FILE.read_text()), build()
    assert sorted(stored) == sorted(curves.names())
    for name, curve in stored.items():
        assert curve["command"] == curves.command(name)
        assert len(curve["rounds"]) == len(curve["values"]) > 4
        assert all(0 <= value <= 1 for value in curve["values"])
        assert curve["rounds"] == sorted(set(curve["rounds"]))
        args = parser.read(shlex.split(curve["command"])[1:])
        assert parse(args.method, "method").text.startswith(name)
        parse(args.on, "data set")


@pytest.mark.usefixtures("warm_processes")
def test_drawings_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(DOCS / "drawings"), "--check"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_method_has_a_card_with_all_its_arguments() -> None:
    from sitegen import cards
    from sitegen.arguments import arguments

    stored = json.loads(cards.CURVES.read_text())
    assert len(cards.entries()) > 70
    for entry in cards.entries():
        text = cards.card(entry, stored)
        assert f"# {entry.name}\n" in text
        for argument in arguments(entry):
            assert f"| `{argument.name}` |" in text
        assert "## One run" in text or entry.name in ("chain",)
    fedgloss = cards.card(next(e for e in cards.entries() if e.name == "fedgloss"), stored)
    for part in (
        "## Rule",
        "CVPR 2025",
        "Where paper and released code differ",
        "<svg",
        "--rounds",
    ):
        assert part in fedgloss


def test_every_public_name_is_on_a_page() -> None:
    from sitegen import api, cards

    listed = {name for names in api.groups().values() for name in names}
    methods = {entry.name for entry in cards.entries()}
    public = set(fedflat.__all__) - {"__version__"}
    assert listed | (methods & public) == public
    assert not {name for name in listed if (known(name) or None) and name in methods}


def test_every_option_is_on_the_page_of_its_command() -> None:
    from sitegen import commands

    pages = commands.pages()
    assert {"run.md", "compare.md", "analyse.md", "report.md", "data.md"} <= set(pages)
    assert "analyze.md" not in pages  # an alias
    for option in commands.commands()["run"]._option_string_actions:
        assert f"{option}" in pages["run.md"]
    assert "## data show" in pages["data.md"]


def test_the_navigation_has_every_page() -> None:
    from sitegen.navigation import contents

    found = contents((DOCS / "index.md").read_text())
    named = [page for pages in found.values() for page in pages]
    assert {"Tutorial", "How-to", "Concepts", "Reference", "Gallery"} <= set(found)
    pages = {
        str(page.relative_to(DOCS).with_suffix(""))
        for page in DOCS.rglob("*.md")
        if not {"_build", "generated"} & set(page.parts)
    }
    assert sorted(named) == sorted(pages - {"index"})
    assert len(named) == len(set(named))
