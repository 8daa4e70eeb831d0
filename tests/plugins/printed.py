"""The files and the commands that docs/extending.md prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from PIL import Image

DOC = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
NAMES = (
    "sign_sam.py",
    "longer_step.py",
    "thumbnails.py",
    "camps.py",
    "nearly.py",
    "ring.py",
    "sizes.py",
    "update_norms.py",
    "layer_norms.py",
)
"""The plugins."""
EXECUTOR = "timed.py"
"""Given in Python: it is no plugin."""


def write_files(folder: Path) -> None:
    """Every Python block as the file that its first line names, and twenty pictures of two
    kinds."""
    for block in re.findall(r"```python\n(.*?)```", DOC, re.DOTALL):
        name = block.partition("\n")[0].removeprefix("# ")
        (folder / name).write_text(block)
    for kind, colour in (("dark", 40), ("light", 200)):
        (folder / "pictures" / kind).mkdir(parents=True)
        for i in range(10):
            Image.new("RGB", (20, 24), (colour + i, colour, colour - i)).save(
                folder / "pictures" / kind / f"{i}.png"
            )


def commands() -> list[list[str]]:
    """The words of every command, without the first."""
    lines = [
        line
        for block in re.findall(r"```sh\n(.*?)```", DOC, re.DOTALL)
        for line in block.splitlines()
    ]
    return [shlex.split(line)[1:] for line in lines]
