"""The built site in a browser: axe finds no fault, and no page is wider than the screen.

`make docs` builds it; this test builds it in a folder of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

api = pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")
ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium")
PAGES = """index tutorial cli extending flatness partitions topologies groups clock adaptation glossary
evidence combinations howto/own-data howto/notebook howto/sweeps howto/figures howto/other-libraries
concepts/round concepts/pieces concepts/flat-minima reference/api reference/methods reference/commands
reference/contexts search gallery/index generated/methods/fedgloss generated/commands/run""".split()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    sources = folder / "repository" / "docs"
    shutil.copytree(
        ROOT / "docs", sources, ignore=shutil.ignore_patterns("_build", "generated", "__pycache__")
    )
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder / "repository")
    (folder / "repository" / "results").symlink_to(ROOT / "results")  # pages show figures of it
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--builder", "html"]
    subprocess.run([*command, str(sources), str(folder / "html")], check=True)
    return folder / "html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault(browser: Any, site: Path, scheme: str, width: int) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for name in PAGES:
        page.goto((site / f"{name}.html").as_uri())
        found = axe.Axe().run(page).response["violations"]
        faults = [(one["id"], one["nodes"][0]["html"]) for one in found]
        assert faults == [], name
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    context.close()
