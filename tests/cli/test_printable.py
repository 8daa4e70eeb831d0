"""Text of run folders on a terminal."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import fedflat as ff
from fedflat.cli import main
from fedflat.errors import FedflatError, printable, printable_lines
from fedflat.experiments.console import ConsoleReporter, reporter_for
from fedflat.experiments.run_folder.plugins_needed import PluginNeed, changed, missing
from fedflat.experiments.run_folder.record import identity
from fedflat.experiments.run_folder.schema import signed, verified
from fedflat.papers.reproduce.plan import FILE
from fedflat.registry.plugins import Plugin
from papers.reproduce.test_plan import PLAIN, planned

ESCAPES = "\x1b[2J\x1b]0;title\x07\r\n\x9b31m\u202egnp.exe\u2066\ud800"
"""A cleared screen, a title, a line of one's own, a colour, and text from right to left."""


def test_what_is_printable() -> None:
    assert printable("fedsam(rho=0.05) ± 1 ▁▂ café 東京") == "fedsam(rho=0.05) ± 1 ▁▂ café 東京"
    escaped = r"\x1b[2J\x1b]0;title\x07\r\n\x9b31m\u202egnp.exe\u2066\ud800"
    assert printable(ESCAPES) == escaped
    assert printable(printable(ESCAPES)) == escaped
    assert printable_lines("a\x1b\nb") == "a\\x1b\nb"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of somebody who has put escape sequences wherever a text may be, with digests that
    fit."""
    folder = tmp_path / "run"
    ff.run(
        "fedavg",
        on="digits(clients=20)",
        model="logistic",
        rounds=1,
        threads=1,
        out=folder,
        quiet=True,
    )
    return folder


def forged(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change run.json of a run that has not ended, with an identity that fits."""
    record = json.loads((folder / "run.json").read_text())
    change(record)
    del record["end"]
    record["status"], record["identity"] = "running", ""
    record["identity"] = identity(record)
    for name in ("metrics.jsonl", "recorded.jsonl"):
        (folder / name).unlink(missing_ok=True)
    (folder / "run.json").write_text(json.dumps(record))


PLUGIN = {
    "name": f"evil{ESCAPES}",
    "version": f"1{ESCAPES}",
    "digest": None,
    "place": f"/x{ESCAPES}",
    "names": [f"my_sam{ESCAPES}"],
}
TEXTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "plugin": lambda record: record["experiment"].update(plugins=[PLUGIN]),
    "file of a plugin": lambda record: record["experiment"].update(
        plugins=[{**PLUGIN, "version": None, "digest": f"{ESCAPES}"}]
    ),
    "method": lambda record: record["experiment"].update(method=f"fedavg{ESCAPES}"),
    "version": lambda record: record.update(fedflat=f"0{ESCAPES}"),
}


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("plugin", "report"),
        ("plugin", "resume"),
        ("file of a plugin", "report"),
        ("file of a plugin", "resume"),
        ("method", "resume"),
        ("version", "report"),
        ("version", "resume"),
        ("version", "analyse"),
    ],
)
def test_texts_of_a_run_are_shown_escaped(
    text: str, command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plugin names were printed raw, with the advice to install them."""
    forged(folder, TEXTS[text])
    main([command, str(folder)])
    output = capsys.readouterr()
    assert "\\x1b" in output.err
    assert all(line.isprintable() for line in (output.err + output.out).split("\n"))
    assert "nstall" not in output.err


def test_no_sentence_advises_to_install_what_a_folder_names() -> None:
    for version, digest in (("1.2", None), (None, "ab" * 32), (None, None)):
        plugin = Plugin("evil", version, digest)
        output = missing([PluginNeed(plugin, ("no_such_name",))]) + changed(
            [PluginNeed(plugin, ("fedavg",))]
        )
        assert len(output) == (1 if version == digest else 2)
        assert not [sentence for sentence in output if "nstall" in sentence]


def test_texts_of_a_table_are_shown_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned(tmp_path, PLAIN)
    saved = verified(json.loads((tmp_path / FILE).read_text()))
    saved["entries"][0]["cell"]["name"] += ESCAPES
    (tmp_path / FILE).write_text(json.dumps(signed(saved)))
    assert main(["reproduce", str(tmp_path), "--table"]) == 0
    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert "\\x1b[2J" in output


def test_what_a_run_says_is_shown_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    ConsoleReporter(Console(file=stream, width=200)).print_line(f"damaged {ESCAPES}")
    assert "\x1b" not in stream.getvalue()
    assert "\\x1b[2J" in stream.getvalue()
    with reporter_for(quiet=True) as reporter:
        reporter.print_line(f"damaged {ESCAPES}")
    assert "\x1b" not in capsys.readouterr().err


def test_an_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(args: object) -> int:
        raise FedflatError(f"it is damaged ({ESCAPES})")

    monkeypatch.setattr("fedflat.cli.verbs.list.run", fails)
    assert main(["list", "methods"]) == 2
    assert capsys.readouterr().err == f"fedflat: error: it is damaged ({printable(ESCAPES)})\n"
