"""docs/reference/contexts.md lists the fields of the objects that pieces see, with their types."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from fedflat.client.piece import ClientContext, Piece
from fedflat.core.messages import Broadcast, Replies, Reply
from fedflat.server.piece import ServerContext, ServerPiece

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "contexts.md").read_text()


def section(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("cls", [ClientContext, ServerContext, Broadcast, Replies, Reply])
def test_every_field_with_its_type(cls: type) -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(.+?)` \|", section(cls.__name__), re.MULTILINE)
    listed = {name: kind.replace("\\|", "|") for name, kind in rows}
    assert listed == {field.name: field.type for field in fields(cls)}


def test_every_call_exists() -> None:
    for base, heading in ((Piece, "client"), (ServerPiece, "server")):
        calls = re.findall(
            r"^\| `(\w+)\((.*?)\)` \|", section(f"The calls of a {heading} piece, in order"), re.M
        )
        assert len(calls) >= 2
        for name, arguments in calls:
            code = vars(base)[name].__code__
            assert ["self", *arguments.split(", ")] == [*code.co_varnames[: code.co_argcount]]
