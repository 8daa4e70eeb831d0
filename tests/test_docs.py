"""The README is short, and all relative links in the README, CONTRIBUTING.md and docs/ resolve."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pages.blocks import PAGES

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub derives them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


def test_the_readme_is_short() -> None:
    assert len(README.read_bytes()) <= 9_000


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_resolve(page: Path) -> None:
    assert broken_links(page) == []


def test_every_page_is_linked() -> None:
    """Each page of docs/ can be reached from the README."""
    found: set[Path] = set()
    waiting = [README]
    while waiting:
        page = waiting.pop()
        targets = {
            (page.parent / link.partition("#")[0]).resolve() for link in LINK.findall(prose(page))
        }
        new = {target for target in targets if target.suffix == ".md" and target.exists()} - found
        found |= new
        waiting.extend(new)
    assert {page.resolve() for page in PAGES} - found <= {README.resolve()}


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading\n[here](#a-heading) [gone](#gone) [no](no.md) [web](https://example.org)\n"
    )
    assert broken_links(page) == ["#gone", "no.md"]


def test_contributing_names_tests_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\btests/[\w/]+(?:\.py)?", text))
    assert len(named) > 20
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def unknown_names(text: str) -> set[str]:
    """Names of classes and paths of modules in a page that the package does not have."""
    source = ROOT / "src" / "fedflat"
    words = {
        word
        for path in source.rglob("*.py")
        for word in re.findall(r"\w+", path.read_text("utf-8"))
    }
    codes = re.findall(r"`([^`\n]+)`", text)
    classes = {name for code in codes for name in re.findall(r"\b[A-Z][a-z]+[A-Z]\w*", code)}
    modules = {code for code in codes if re.fullmatch(r"(\w+/)+\w+\.(py|js)", code)}
    roots = (source, ROOT)
    return (classes - words - {"ThePiece"}) | {
        path for path in modules if not any((root / path).exists() for root in roots)
    }


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/design.md", "docs/glossary.md"])
def test_pages_name_what_exists(page: str) -> None:
    text = prose(ROOT / page).partition("## Old and new names")[0]
    assert unknown_names(text) == set()


def test_a_wrong_name_is_found() -> None:
    text = "`ClientPool`, `ClientPoole.run`, `server/exchange.py`, `server/exchanges.py`"
    assert unknown_names(text) == {"ClientPoole", "server/exchanges.py"}
