"""Reader of LEAF's JSON files (Caldas et al., 2018), after preprocessing.

{"users": ["f0000_14", ...], "num_samples": [101, ...], "user_data": {"f0000_14": {"x": [...], "y":
[...]}, ...}}
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedflat.errors import DataError
from fedflat.files import Damaged, parse_json, read_bytes


def read_leaf(folder: Path) -> Iterator[tuple[Path, str, list[Any], list[Any]]]:
    """Yield (file, user, inputs, targets) for each user in the files of a folder."""
    for path in sorted(folder.glob("*.json")):
        try:
            document = parse_json(read_bytes(path))
        except (OSError, Damaged) as error:
            raise DataError(
                f"{path} cannot be read as JSON: {error}. Make it again as LEAF does."
            ) from None
        try:
            users, data = document["users"], document["user_data"]
            for user in users:
                x, y = data[user]["x"], data[user]["y"]
                if (
                    not isinstance(user, str)
                    or not isinstance(x, list)
                    or not isinstance(y, list)
                    or len(x) != len(y)
                ):
                    raise ValueError(f"user {user!r} must have as many inputs as targets")
                yield path, user, x, y
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path} must have users and user_data as LEAF's files do: {error!r}. Make it "
                "again with LEAF's preprocessing."
            ) from None
