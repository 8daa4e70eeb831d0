"""The blocks of the tutorial, of the how-to pages and of others run as they are printed.

The blocks of a page run one after the other in one folder: Python blocks share their names, as
cells of a notebook do, and a Python block whose first line names a file becomes this file. Blocks
of other pages are run by tests of their own (`RUN_ELSEWHERE`). Large experiments run for fewer
rounds (`FEWER_ROUNDS`). A block that cannot run here says why; `test_blocks_can_be_read.py` reads it.
"""

from __future__ import annotations

import os
import re
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
FEWER_ROUNDS = {
    "docs/adaptation.md": 2,
    "docs/attacks.md": 10,
    "docs/cluster.md": 2,
    "docs/driving.md": 2,
    "docs/evidence.md": 2,
    "docs/pictures.md": 2,
    "docs/places.md": 2,
    "docs/privacy.md": 2,
    "docs/reproduce.md": 2,
    "docs/topologies.md": 5,
}
"""Pages with experiments of minutes or hours: one seed of each runs for so many rounds."""
READ_ONLY = re.compile(
    r"cifar|shakespeare|msls|camvid|table6\.3|fedgloss/table|fedgloss-table|'auto'|street-rainy|digits-{"
)
"""Commands of these pages that need data sets of others, a cluster that is running, or hours even
for few rounds."""
BEFORE = {
    "docs/pictures.md": """
from pathlib import Path
from PIL import Image
Path("more_photos").mkdir()
for photo in ("photo.jpg", "more_photos/a.png"):
    Image.new("RGB", (96, 64), (70, 130, 180)).save(photo)
on = "street(towns=2, clients=4, examples=4, tests=8)"
few = ["--clients-per-round", "2", "--rounds", "1"]
assert main(["run", "fedavg", "--on", on, *few, "--out", "runs/street"]) == 0
"""
}
"""What a page says to have already."""
WITH_BLOCKS = [
    page
    for page in PAGES
    if any(block.language in ("python", "sh", "bash") for block in blocks(page))
]
RUN = [page for page in WITH_BLOCKS if str(page.relative_to(ROOT)) not in RUN_ELSEWHERE]


def test_every_page_is_run() -> None:
    named = {*RUN_ELSEWHERE, *FEWER_ROUNDS, *BEFORE}
    assert named <= {str(page.relative_to(ROOT)) for page in WITH_BLOCKS}
    assert DOCS / "tutorial.md" in RUN
    assert len([page for page in RUN if page.parent.name == "howto"]) >= 10
    for test in RUN_ELSEWHERE.values():
        assert (ROOT / test).exists()


def script(page: Path, folder: Path) -> str:
    """All blocks of a page as one program."""
    name = str(page.relative_to(ROOT))
    lines = ["from fedflat.cli import main", "names = {'__name__': 'page'}", BEFORE.get(name, "")]
    for block, typed in zip(blocks(page), commands(blocks(page), folder), strict=True):
        if not block.runs:
            continue
        if block.language == "python" and block.file:
            lines.append(f"open({block.file!r}, 'w').write({block.code!r})")
        elif block.language == "python":
            lines.append(f"exec(compile({block.code!r}, {page.name!r}, 'exec'), names)")
        for words in typed:
            if words[0] != "fedflat" or (name in FEWER_ROUNDS and READ_ONLY.search(str(words))):
                continue
            words = fewer_rounds(words, FEWER_ROUNDS[name]) if name in FEWER_ROUNDS else words
            lines.append(f"assert main({words[1:]!r}) == 0, {words!r}")
    return "\n".join(lines)


def fewer_rounds(words: list[str], rounds: int) -> list[str]:
    """The same command for few rounds and one seed.

    >>> fewer_rounds(["fedflat", "run", "fedavg", "--rounds", "90", "--init", "x(rounds=20)"], 2)
    ['fedflat', 'run', 'fedavg', '--init', 'x(rounds=1)', '--rounds', '2']
    """
    verb, kept = words[1], list(words)
    lists = {"--list", "--table", "--resume"} & set(words)
    if verb not in ("run", "compare", "reproduce") or lists:
        return words
    for option in ("--rounds", "--seeds"):
        if option in kept:
            at = kept.index(option)
            del kept[at : at + 2]
    return [re.sub(r"rounds=\d+", "rounds=1", word) for word in kept] + ["--rounds", str(rounds)]


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
