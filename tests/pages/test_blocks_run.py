"""The blocks of the tutorial, of the how-to pages and of others run as they are printed.

The blocks of a page run one after the other in one folder: Python blocks share their names, as
cells of a notebook do, and a Python block whose first line names a file becomes this file. Blocks
of other pages are run by tests of their own (`RUN_ELSEWHERE`) or are large experiments whose
commands `test_blocks_can_be_read.py` reads (`LARGE`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pages.blocks import DOCS, PAGES, ROOT, blocks, commands

RUN_ELSEWHERE = {
    "README.md": "tests/test_readme_shell.py",
    "docs/cli.md": "tests/test_readme_shell.py",
    "docs/flatness.md": "tests/test_readme_shell.py",
    "docs/extending.md": "tests/plugins/test_extending.py",
    "docs/groups.md": "tests/plugins/test_groups_page.py",
    "docs/clock.md": "tests/plugins/test_clock_page.py",
}
"""Pages whose blocks other tests run, and those tests."""
LARGE = {
    "docs/adaptation.md": "half an hour of training",
    "docs/attacks.md": "thousands of rounds",
    "docs/cluster.md": "needs a cluster",
    "docs/deploy.md": "needs several machines; tests/deploy runs the same in processes",
    "docs/driving.md": "needs data sets of others and hours",
    "docs/evidence.md": "hours of training",
    "docs/pictures.md": "needs a run of docs/cli.md",
    "docs/places.md": "needs data sets of others",
    "docs/privacy.md": "thousands of rounds",
    "docs/reproduce.md": "hours of training",
    "docs/topologies.md": "minutes of training",
}
"""Pages of which every command is read, and why they are not run."""
WITH_BLOCKS = [
    page
    for page in PAGES
    if any(block.language in ("python", "sh", "bash") for block in blocks(page))
]
RUN = [
    page for page in WITH_BLOCKS if str(page.relative_to(ROOT)) not in {**RUN_ELSEWHERE, **LARGE}
]


def test_every_page_is_run_or_says_why_not() -> None:
    named = {*RUN_ELSEWHERE, *LARGE}
    assert named <= {str(page.relative_to(ROOT)) for page in WITH_BLOCKS}
    assert DOCS / "tutorial.md" in RUN
    assert len([page for page in RUN if page.parent.name == "howto"]) >= 10
    for test in RUN_ELSEWHERE.values():
        assert (ROOT / test).exists()


def script(page: Path, folder: Path) -> str:
    """All blocks of a page as one program."""
    lines = ["from fedflat.cli import main", "names = {'__name__': 'page'}"]
    for block, typed in zip(blocks(page), commands(blocks(page), folder), strict=True):
        if not block.runs:
            continue
        if block.language == "python" and block.file:
            lines.append(f"open({block.file!r}, 'w').write({block.code!r})")
        elif block.language == "python":
            lines.append(f"exec(compile({block.code!r}, {page.name!r}, 'exec'), names)")
        for words in typed:
            if words[0] == "fedflat":
                lines.append(f"assert main({words[1:]!r}) == 0, {words!r}")
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_its_blocks_run(page: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", script(page, tmp_path)],
        cwd=here,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
