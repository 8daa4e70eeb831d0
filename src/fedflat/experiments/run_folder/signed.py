"""Digests of plain values, and JSON files that carry a digest of their own content.

A file written by `write_signed` has its digest in the field ``digest``. `verified` refuses a file
whose content does not match it, so an edited file or a damaged byte is found when the file is read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedflat.files import Damaged, digest, write_file


def sign(value: object) -> str:
    """A digest of plain values, the same for what is read of them later."""
    plain = json.loads(json.dumps(value))  # in which all names are texts
    return digest(json.dumps(plain, sort_keys=True).encode()).hex()


def signed(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a file with its digest."""
    return {**content, "digest": sign(content)}


def write_signed(path: Path, content: dict[str, Any], indent: int | None = None) -> None:
    """Write a JSON file with its digest."""
    write_file(path, json.dumps(signed(content), indent=indent).encode())


def verified(found: dict[str, Any]) -> dict[str, Any]:
    """The content of a file without its digest; `Damaged` if the two do not match."""
    content = {name: value for name, value in found.items() if name != "digest"}
    if found.get("digest") != sign(content):
        raise Damaged("it does not have the digest it had when it was written")
    return content
