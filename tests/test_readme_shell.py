"""The shell blocks of the README, docs/cli.md and docs/flatness.md: all commands parse, and they
run on a small scale.

Small means: two rounds of two clients, one epoch, one seed, few examples, points and probes, and
CIFAR-10 from miniature files in its true format. All run one after the other in one folder, in a
process of its own. What installs, serves until Ctrl-C, fetches, or starts processes for minutes is
read by the parser only.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from data.miniature import write_cifar_files
from fedflat.cli.parser import build
from fedflat.data.files.pictures import png

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, ROOT / "docs" / "cli.md", ROOT / "docs" / "flatness.md"]
FEWER = {
    "--rounds": "2",
    "--clients-per-round": "2",
    "--local-epochs": "1",
    "--local-steps": "1",
    "--seeds": "1",
    "--probes": "2",
    "--density": "1",
}
ALSO = {
    "analyse": ["--examples", "4", "--points", "3", "-k", "1"],
    "report": ["--formats", "pdf"],
    "run": ["--threads", "1"],
    "compare": ["--threads", "1"],
}
ONLY_READ = [["dashboard"], ["data", "get"], ["reproduce", "toy"]]
DRIVER = """
import glob, json, sys
from fedflat.cli import main
for words in json.load(sys.stdin):
    found = [name for word in words for name in (sorted(glob.glob(word)) if "*" in word else [word])]
    print("RUN", words, flush=True)
    status = main(found)
    assert status == 0, (status, words)
"""


def commands() -> list[list[str]]:
    """The words of every command, in the order of the pages; comments left out, lines joined."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True) for line in lines]


def write_plugin(folder: Path) -> None:
    """The README's own method, as the file that its first line names."""
    text = README.read_text(encoding="utf-8")
    [(name, code)] = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", text, re.DOTALL)
    (folder / name).write_text(code)


def small(words: list[str]) -> list[str]:
    """The same command with less to do."""
    fewer = [FEWER.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    return fewer + ALSO.get(words[0], [])


def test_every_command_can_be_typed() -> None:
    """One way to call it throughout; everything else in the blocks installs."""
    others = [words for words in commands() if words[0] != "fedflat"]
    assert others == [["make", "run"], ["make", "test"], ["pip", "install", "."]]
    for _, *words in (words for words in commands() if words[0] == "fedflat"):
        assert build().read(words).command == words[0]


def test_make_run_is_the_first_of_them() -> None:
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    typed = re.search(r"\$\(BIN\)/(fedflat compare .*)", makefile)
    assert typed is not None
    assert shlex.split(typed[1]) == next(
        words for words in commands() if words[:2] == ["fedflat", "compare"]
    )


@pytest.mark.slow
def test_commands_of_the_readme_run(tmp_path: Path) -> None:
    write_cifar_files(tmp_path / "files" / "cifar-10-batches-bin", "cifar10", 30)
    typed = [words for name, *words in commands() if name == "fedflat"]
    run = [words for words in typed if not any(words[: len(read)] == read for read in ONLY_READ)]
    assert len(run) == len(typed) - len(ONLY_READ)
    (tmp_path / "here" / "photos").mkdir(parents=True)
    write_plugin(tmp_path / "here")
    (tmp_path / "here" / "photos" / "street.png").write_bytes(
        png(np.full((48, 96, 3), 90, np.uint8))
    )
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps([small(words) for words in run]),
        cwd=tmp_path / "here",
        env={**os.environ, "FEDFLAT_DATA": str(tmp_path / "files"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stdout.count("RUN [") == len(run)
    here = tmp_path / "here"
    assert (here / "runs/mine/report.html").exists()
    assert (here / "runs/three/report.html").exists()
    assert list((here / "figures").glob("*.pdf"))
    assert (here / "masks/street.mask.png").exists()
    assert (here / "runs/smooth/run.json").exists()
