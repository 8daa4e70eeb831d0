"""What can happen to a run folder: one damage drawn by a generator, done at once, and described.

    sentence = damage(Random(0), folder, other, outside)

``folder`` is a run or a study, ``other`` another one of the same shape, and ``outside`` a folder
with a file ``victim``, to which links may lead.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from experiments.damaged_files import ODD
from hostile.forging import forge
from report.damage import WRONG, changed, leaves

PIECES = (
    b"null",
    b'"',
    b"[",
    b"-1",
    b"1e999",
    b"\xff",
    b"{}",
    b"9" * 5000,
    b"\0" * 64,
    b"\n",
    b"[" * 100_000,
    b" ",
)
NAMES = (
    ".ipynb_checkpoints",
    "round-0000003 (conflicted copy).json",
    "round-0000009.json",
    "round-" + "9" * 40 + ".json",
    "0000009-1-1.safetensors",
    "round-0000001.json.77.new",
    "a\nb",
    "\udcff",
    "final-x.safetensors",
    "report.html.new",
    "run.json.new",
    "curvature-000000000000.json",
    "surface-1.part.json",
    ".hidden.json",
    "clients.bin.new",
)


@dataclass(frozen=True)
class Scene:
    """Where it happens."""

    rng: random.Random
    folder: Path
    other: Path
    outside: Path

    def file(self, ending: str = "") -> Path:
        """One of its files; each kind of file is as likely as the others."""
        files = sorted(p for p in self.folder.rglob("*") if p.is_file() and not p.is_symlink())
        kinds: dict[str, list[Path]] = {}
        for path in files:
            if path.name.endswith(ending):
                kinds.setdefault(re.sub(r"[0-9a-f]{12}|\d+", "N", path.name), []).append(path)
        return self.rng.choice(kinds[self.rng.choice(sorted(kinds))])

    def inner(self) -> Path:
        """One of its folders."""
        return self.rng.choice(
            sorted(p for p in self.folder.rglob("*") if p.is_dir() and not p.is_symlink())
        )


def damage(rng: random.Random, folder: Path, other: Path, outside: Path) -> str:
    """Damage the folder: what was done, and to what; "forged" if its digests were made to fit."""
    scene = Scene(rng, folder, other, outside)
    todo, often = zip(*DAMAGES.items(), strict=True)
    done = rng.choices(todo, often)[0]
    return f"{done.__name__[1:]} {done(scene)}"


def _bytes(scene: Scene) -> str:
    """Bits flipped, bytes lost, doubled, or others put in."""
    rng, path = scene.rng, scene.file()
    content = bytearray(path.read_bytes())
    place = rng.randrange(len(content) or 1)
    kind = rng.choice(
        (
            "flipped",
            "flipped",
            "flipped many",
            "cut",
            "emptied",
            "doubled",
            "put in",
            "zeros",
            "longer",
        )
    )
    if kind.startswith("flipped") and content:
        for _ in range(1 if kind == "flipped" else 20):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif kind == "doubled":
        content[place:place] = content[place : place + 40]
    elif kind == "put in":
        content[place : place + 1] = rng.choice(PIECES)
    elif kind == "zeros":
        content[place : place + 512] = bytes(len(content[place : place + 512]))
    elif kind == "longer":
        content += rng.choice(PIECES)
    else:
        del content[0 if kind == "emptied" else place :]
    path.write_bytes(content)
    return f"{kind} {path}"


def _lines(scene: Scene) -> str:
    """Lines of a log lost, doubled or exchanged."""
    path = scene.file(".jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    if lines:
        place = scene.rng.randrange(len(lines))
        match scene.rng.randrange(4):
            case 0:
                del lines[place]
            case 1:
                lines.insert(place, lines[place])
            case 2:
                lines[0], lines[place] = lines[place], lines[0]
            case _:
                del lines[place:]
    path.write_bytes(b"".join(lines))
    return f"{path}"


def _place(scene: Scene) -> str:
    """Something that is no file, or nothing, in a file's place."""
    path = scene.file()
    content = path.read_bytes()
    path.unlink()
    kinds = (
        "nothing",
        "itself, far away",
        "the victim",
        "a dangling link",
        "a loop",
        "unreadable",
        *ODD,
    )
    kind = scene.rng.choice(kinds)
    if kind in ODD:
        ODD[kind](path)
    elif kind == "itself, far away":
        (scene.outside / "itself").write_bytes(content)
        path.symlink_to(scene.outside / "itself")
    elif kind == "unreadable":  # not for root
        path.write_bytes(content)
        path.chmod(0)
    elif kind != "nothing":
        targets = {
            "the victim": scene.outside / "victim",
            "a dangling link": scene.outside / "new",
            "a loop": path,
        }
        path.symlink_to(targets[kind])
    return f"{kind} {path}"


def _leaf(scene: Scene) -> str:
    """One value of a JSON file is another thing, or gone."""
    path = scene.file(scene.rng.choice((".json", ".jsonl")))
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    at = scene.rng.randrange(len(lines))
    value = json.loads(lines[at])
    leaf, to = scene.rng.choice(list(leaves(value))), scene.rng.choice(WRONG)
    lines[at] = json.dumps(changed(value, leaf, to))
    path.write_text("\n".join(lines) + "\n")
    return f"{leaf} {'is gone' if to is WRONG[0] else repr(to)[:40]} {path}"


def _forged(scene: Scene) -> str:
    """The same, by somebody who makes the digests fit."""
    path = scene.file(scene.rng.choice((".json", ".jsonl")))
    return f"{forge(scene.rng, path)} {path}"


def _mixed_up(scene: Scene) -> str:
    """A file of another run, or of another name."""
    path = scene.file()
    there = scene.other / path.relative_to(scene.folder)
    alike = sorted(p for p in scene.other.rglob(f"*{path.suffix}") if p.is_file())
    source = (
        there if there.is_file() and scene.rng.random() < 0.7 else scene.rng.choice(alike or [path])
    )
    shutil.copy(source, path)
    return f"{source} for {path}"


def _whole_folder(scene: Scene) -> str:
    """A folder gone, elsewhere, another run's, or no folder."""
    path = scene.inner()
    there = scene.other / path.relative_to(scene.folder)
    kind = scene.rng.choice(("gone", "elsewhere", "empty", "another's", "unreadable", *ODD))
    if kind == "elsewhere":
        shutil.copytree(path, scene.outside / "folder")
    if kind == "unreadable":
        path.chmod(0)
        return f"{kind} {path}"
    shutil.rmtree(path)
    if kind == "elsewhere":
        path.symlink_to(scene.outside / "folder")
    elif kind == "another's" and there.is_dir():
        shutil.copytree(there, path)
    elif kind in ODD:
        ODD[kind](path)
    elif kind == "empty":
        path.mkdir()
    return f"{kind} {path}"


def _foreign(scene: Scene) -> str:
    """Something that others left there: a file, a folder, a pipe, a link to the victim."""
    rng = scene.rng
    path = rng.choice([scene.folder, scene.inner()]) / rng.choice(NAMES)
    kind = rng.choice(("a file", "a full folder", "a link out", *ODD))
    if os.path.lexists(path):
        return f"nothing {path}"
    if kind == "a file":
        path.write_bytes(rng.choice([scene.file().read_bytes(), b"", b"{}"]))
    elif kind == "a full folder":
        path.mkdir()
        (path / "mine").touch()
    elif kind == "a link out":
        path.symlink_to(scene.outside / "victim")
    else:
        ODD[kind](path)
    return f"{kind} {path}"


def _trap(scene: Scene) -> str:
    """Links to the victim at the names of files that will be written."""
    names = (
        "lock",
        "report.html",
        "final.safetensors",
        "metrics.jsonl",
        "recorded.jsonl",
        "analysis",
        "checkpoint",
    )
    path = scene.folder / scene.rng.choice(names)
    ours = (
        path,
        path.with_name(path.name + ".new"),
        path.with_name(f"{path.name}.{os.getpid()}.new"),
    )
    for trap in ours[scene.rng.randrange(3) :]:
        if not trap.is_dir():
            trap.unlink(missing_ok=True)
            trap.symlink_to(scene.outside / scene.rng.choice(("victim", "new")))
    return f"{path}"


DAMAGES: dict[Callable[[Scene], str], int] = {
    _bytes: 25,
    _lines: 6,
    _place: 20,
    _leaf: 12,
    _forged: 12,
    _mixed_up: 8,
    _whole_folder: 7,
    _foreign: 6,
    _trap: 4,
}
"""What can happen, and how often."""
