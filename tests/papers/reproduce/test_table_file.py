"""A user's own table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedflat.cli import main
from fedflat.errors import DataError
from fedflat.papers.reproduce.selection import find_table
from fedflat.papers.reproduce.table_file import read_table

GOOD: dict[str, Any] = {
    "title": "Mine",
    "settings": {"on": "digits(lda(0))", "rounds": 20, "lr": 0.05},
    "rows": [
        {"name": "plain", "method": "fedavg()", "reported": 90.03, "spread": 0.95, "seeds": [3, 4]},
        {
            "name": "slow",
            "method": "fedavg()",
            "settings": {"lr": 0.01, "rounds": 30},
            "reported": "X",
        },
        {"name": "new", "method": "fedsam(rho=0.1)", "on": "digits(iid())", "note": "ours"},
    ],
}


def written(folder: Path, table: Any) -> Path:
    path = folder / "mine.json"
    path.write_text(table if isinstance(table, str) else json.dumps(table))
    return path


def test_read(tmp_path: Path) -> None:
    table = find_table(str(written(tmp_path, GOOD)))
    plain, slow, new = table.cells
    assert (table.name, table.title) == ("mine", "Mine")
    assert plain.name == "mine/plain"
    assert plain.arguments == {
        "on": "digits(lda(0))",
        "rounds": 20,
        "lr": 0.05,
        "method": "fedavg()",
    }
    assert (plain.figure, slow.figure, new.figure) == ("90.03 ± 0.95", "X", "-")
    assert (slow.arguments["lr"], slow.rounds) == (0.01, 30)
    assert new.arguments["on"] == "digits(iid())"
    assert plain.seeds == (3, 4)


DEEP = {
    "json": "[" * 5000 + "]" * 5000,
    "json of few levels": json.dumps({**GOOD, "title": "x"})[:-1]
    + ', "note": '
    + "[" * 101
    + "]" * 101
    + "}",
    "toml": "title = " + "[" * 5000 + "]" * 5000,
    "toml of dots": ".".join("a" * 5000) + " = 1",
    "toml of tables": "title = " + "{a = " * 5000 + "1" + "}" * 5000,
}


@pytest.mark.parametrize("kind", DEEP)
def test_what_is_nested_too_deeply_is_refused(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended in a RecursionError."""
    path = tmp_path / f"deep.{kind[:4]}"
    path.write_text(DEEP[kind])
    assert main(["reproduce", str(path)]) == 2
    assert (
        f"the table {path} is not {kind[:4].upper()} that can be read: it is nested too deeply."
        in (capsys.readouterr().err)
    )


def test_toml_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        """
        title = "Mine"
        [settings]
        on = "digits(lda(0))"
        rounds = 20
        lr = 0.05
        [[rows]]
        name = "plain"
        method = "fedavg()"
        reported = 90.03
        spread = 0.95
        seeds = [3, 4]
        """
    )
    assert find_table(str(path)).cells == find_table(str(written(tmp_path, GOOD))).cells[:1]


def row(**more: Any) -> dict[str, Any]:
    return {**GOOD, "rows": [{**GOOD["rows"][0], **more}]}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("{", r"mine\.json is not JSON"),
        ("[]", "must have the fields title, source, settings, rows, found list"),
        ({"titel": "x"}, r"mine\.json: there is no field 'titel'\. Did you mean 'title'\?"),
        ({**GOOD, "title": 3}, "title must be a text, found 3"),
        ({**GOOD, "rows": []}, "rows must be a list of tables, at least one"),
        ({**GOOD, "rows": [3]}, "rows must be a list of tables"),
        ({**GOOD, "settings": 3}, "settings must be a table of names and values, found 3"),
        ({**GOOD, "settings": {"learning_rate": 3}}, "settings: there is no field 'learning_rate'"),
        ({**GOOD, "settings": {"on": "digits()"}}, r"row 1 \(plain\): rounds is missing"),
        ({**GOOD, "rows": [GOOD["rows"][0]] * 2}, "two rows have the name 'plain'"),
        (row(name=""), "row 1: name must be a text, found ''"),
        (row(name="a b"), "row 1: name must be made of letters"),
        (
            row(raported=1),
            r"row 1 \(plain\): there is no field 'raported'\. Did you mean 'reported'\?",
        ),
        (row(method=3), r"row 1 \(plain\): method must be a text, found 3"),
        (row(reported="high"), r"reported must be a number from 0 to 100, or \"X\", found 'high'"),
        (row(reported=101), "reported must be a number from 0 to 100"),
        (row(spread=-1), "spread must be a number from 0 to 100 beside a number, found -1"),
        (row(reported="X"), "spread must be a number from 0 to 100 beside a number, found 0.95"),
        (row(seeds=[-1]), r"seeds must be a list of whole numbers from 0, found \[-1\]"),
        (
            row(measure="loss"),
            "measure must be accuracy, tests.NAME of a further test set, personal, or one of rounds, .* found 'loss'",
        ),
        (row(measure="rounds"), "rounds needs a target, a score or the name of a row, found None"),
        (row(measure="cost", target=101), "cost needs a target, .* found 101"),
        (row(target=50), "a target needs the measure rounds, cost, speedup"),
        (row(set="train"), "set must be test or train, beside one of the measures lambda_1"),
        (row(measure="trace", set="all"), "set must be test or train, .* found 'all'"),
        (row(reported="-"), r"or \"X\", found '-'"),
        (row(settings={"rounds": 0}), "rounds must be a whole number of at least 1, found 0"),
        (
            row(settings={"lrr": 0.1}),
            r"row 1 \(plain\): settings: there is no field 'lrr'\. Did you mean 'lr'\?",
        ),
    ],
)
def test_refused_with_file_and_field(tmp_path: Path, table: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as refused:
        read_table(written(tmp_path, table), "mine")
    assert "mine.json" in str(refused.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing\.toml cannot be read"):
        find_table(str(tmp_path / "nothing.toml"))
    (tmp_path / "bad.toml").write_text("= 3")
    with pytest.raises(DataError, match="is not TOML"):
        find_table(str(tmp_path / "bad.toml"))
