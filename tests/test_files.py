"""JSON and TOML are read by one loader, which refuses what is nested too deeply."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedflat.cli import main
from fedflat.data.files.formats import read_leaf
from fedflat.data.partitions.given import _lists
from fedflat.data.sets.cifar import _labels
from fedflat.data.sets.shakespeare import _speeches
from fedflat.errors import DataError
from fedflat.files import DEEPEST, Damaged, parse_json, parse_toml

RUN = ["run", "fedavg", "--on", "digits()", "--rounds", "1"]


@pytest.mark.parametrize("levels", [DEEPEST + 1, 900, 5000, 100_000])
def test_the_limit_does_not_depend_on_python(levels: int) -> None:
    """Python itself reads 900 levels, and newer versions read several thousand."""
    for text in ("[" * levels + "]" * levels, '{"a":' * levels + "1" + "}" * levels):
        with pytest.raises(Damaged, match="nested too deeply"):
            parse_json(text)
    for text in ("a = " + "[" * levels + "]" * levels, ".".join("a" * min(levels, 5000)) + " = 1"):
        with pytest.raises(Damaged, match="nested too deeply"):
            parse_toml(text.encode())


def test_what_is_at_the_limit_is_read() -> None:
    found = parse_json("[" * DEEPEST + "]" * DEEPEST)
    for _ in range(DEEPEST - 1):
        (found,) = found
    assert found == []
    assert parse_toml(b"a.b = [[1]]") == {"a": {"b": [[1]]}}


DEEP = "[" * 900 + "]" * 900
"""Python itself reads it, and what is done with it later fails."""


@pytest.mark.parametrize("levels", [900, 5000])
def test_every_reader_of_data(levels: int, tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * levels + "]" * levels)
    readers: list[Callable[[], object]] = [
        lambda: _lists(str(path)),
        lambda: list(read_leaf(tmp_path)),
        lambda: _labels(path),
        lambda: _speeches(path),
    ]
    for read in readers:
        with pytest.raises(DataError, match="nested too deeply"):
            read()


@pytest.mark.parametrize(
    "words",
    [
        [*RUN, "--replay", "deep.json"],
        [*RUN, "--clock", "measured('deep.json')"],
        [*RUN, "--out", "out", "--on", "digits(from_file('deep.json'), clients=2)"],
        ["report", "run"],
        ["resume", "run"],
        ["report", "study"],
        ["resume", "study"],
        ["reproduce", "table", "--table"],
    ],
    ids=lambda words: " ".join(words[:2] if words[0] != "run" else words[-2:]),
)
def test_every_command(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("deep.json", "run/run.json", "study/study.json", "table/reproduce.json"):
        Path(place).parent.mkdir(exist_ok=True)
        Path(place).write_text(DEEP)
    assert main(words) == 2
    assert "nested too deeply" in capsys.readouterr().err
