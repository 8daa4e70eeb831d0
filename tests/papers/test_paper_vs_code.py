"""The page on differences between papers and codes names what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fedflat.composition.method import Method
from fedflat.papers.presets import find
from fedflat.registry.specs import parse

PAGE = Path(__file__).parents[2] / "docs" / "paper-vs-code.md"


def texts_on_the_page() -> list[str]:
    """The texts in the last column of the first two tables."""
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    cells = [row[3] for row in rows if len(row) == 4]
    return [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]


METHODS = [text for text in texts_on_the_page() if "(" in text and "..." not in text]
PRESETS = [text for text in texts_on_the_page() if "/" in text]


def test_the_page_names_both() -> None:
    assert len(METHODS) > 40
    assert len(PRESETS) >= 8


@pytest.mark.parametrize("text", sorted(set(METHODS)))
def test_every_method_can_be_run(text: str) -> None:
    assert isinstance(parse(text, "method"), Method)


@pytest.mark.parametrize("name", sorted(set(PRESETS)))
def test_every_preset_exists(name: str) -> None:
    assert find(name)
