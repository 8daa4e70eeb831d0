"""Whether two machines have the same source files of fedflat."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path


@cache
def code_digest() -> str:
    """The digest of fedflat's source files on this machine."""
    root = Path(__file__).parents[2]
    total = sha256()
    for path in sorted(root.rglob("*.py")):
        total.update(str(path.relative_to(root)).encode())
        total.update(sha256(path.read_bytes()).digest())
    return total.hexdigest()
