"""The pictures of a page, each once: methods that are compared on the same examples share their images and truths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SIDES = ("image", "truth", "mask")


def in_an_album(found: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Analyses whose examples name pictures by their places in an album, and the album."""
    places: dict[str, int] = {}

    def pasted(example: dict[str, Any]) -> dict[str, Any]:
        return example | {side: places.setdefault(example[side], len(places)) for side in SIDES}

    shown = [one | {"sets": {name: list(map(pasted, some)) for name, some in one["sets"].items()}} for one in found]
    return shown, list(places)
