"""Experiment files mean the same as the options of a command line."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedflat.cli.experiment_file import with_file
from fedflat.cli.main import main
from fedflat.cli.parser import build

GIVEN = [
    *("--on", "csv('a b.csv', target=\"x\\ü\")", "--rounds", "3", "--seeds", "2", "--lr", "-0.1"),
    *("--label", 'fedavg()=A "B"', "--label", "x=y", "--drop-last", "--latex", "--quiet"),
    *("--state-memory", "1GB", "--target", "90%", "--momentum", "cosine(0.9)", "--out", "runs/x"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(*words: str) -> dict[str, Any]:
    """The arguments that a command gets, after its file was read."""
    full = with_file(words, build(words).read(words))
    return vars(build(full).read(full)) | {"verb": None, "options": None}


@pytest.mark.parametrize(
    ("verb", "methods"),
    [("run", ["fedsam(rho=0.05) + swa()"]), ("compare", ["fedavg", "fedsam(rho=0.05)"])],
)
def test_a_file_equals_the_options(verb: str, methods: list[str]) -> None:
    assert main(["init", "my file.toml", *methods, *GIVEN]) == 0
    assert read(verb, "my file.toml") == read(verb, *methods, *GIVEN)
    more = ["--rounds", "7", "--batch-size", "5"]
    assert read(verb, *more, "my file.toml") == read(verb, *methods, *GIVEN, *more)


def test_what_is_commented_out_are_the_defaults(folder: Path) -> None:
    """Each default, uncommented, is accepted and changes nothing but that it is given."""
    assert main(["init"]) == 0
    text = (folder / "experiment.toml").read_text()
    assert tomllib.loads(text) == {"method": "fedavg"}
    bare, found = read("run", "fedavg"), 0
    for line in text.splitlines():
        key, equals, value = line.removeprefix("# ").partition(" = ")
        if not (line.startswith("# ") and equals and (value[0] in '"' or value[0].isdigit())):
            continue
        found += 1
        (folder / "one.toml").write_text(f'method = "fedavg"\n{key} = {value}\n')
        args = read("run", "one.toml")
        new = {name for name in args if args[name] != bare.get(name)}
        assert new <= {key}
        assert args[key] == (json.loads(value) if key in new else bare[key])
    assert found >= 15
    for key in ("rounds", "record", "plugin", "checkpoint_every", "quiet", "preset"):
        assert (f"\n# {key} = " in text) == (key != "preset")


def test_runs_are_equal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--rounds", "2", "--clients-per-round", "2", "--on", "digits(lda(0), clients=4)"]
    assert main(["init", "small.toml", "fedavg", *options]) == 0
    assert main(["run", "small.toml", "--quiet", "--out", "file"]) == 0
    assert main(["run", "fedavg", *options, "--quiet", "--out", "words"]) == 0
    first, second = (
        json.loads((folder / name / "run.json").read_text())["experiment"]
        for name in ("file", "words")
    )
    assert first == second


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read (No such file or directory). `fedflat init FILE` writes one."),
        ("rouns = 3", "unknown key 'rouns'. Did you mean 'rounds'?"),
        ("method = fedavg", "no TOML file"),
        ('method = "fedavg"\nrounds = {a = 1}', "rounds must be a text or a number"),
        ("method = true", "method must be a text or a number"),
        ("help = true", "unknown key 'help'"),
    ],
)
def test_wrong_files(
    content: str | None, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (folder / "wrong.toml").write_text(content)
    assert main(["run", "wrong.toml"]) == 2
    assert message in capsys.readouterr().err


def test_init_replaces_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "experiment.toml").write_text("mine")
    assert main(["init"]) == 2
    assert "experiment.toml exists" in capsys.readouterr().err
    assert (folder / "experiment.toml").read_text() == "mine"
    assert main(["init", "a.toml", "b.toml"]) == 2
    assert main(["init", "no/folder.toml"]) == 2
    assert main(["compare", "a.toml", "fedavg"]) == 2
    assert "takes the place of all methods" in capsys.readouterr().err
