"""Run folders that were edited, mixed up or forged: every reader notices, or repairs them."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.damaged_files import ODD, flip, make_runs
from experiments.small import final
from fedflat.cli import main
from fedflat.errors import RunError
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.jsonl_log import JsonlLog, encode
from fedflat.experiments.run_folder.record import read_rows
from fedflat.experiments.study import resume
from fedflat.report import collect


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended, one that was stopped, each for two seeds, and a study of two
    methods."""
    root = tmp_path_factory.mktemp("made")
    make_runs(root)
    return root


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(made / name, tmp_path / name, symlinks=True))


def refused(words: list[str], capsys: pytest.CaptureFixture[str], *message: str) -> None:
    """One sentence and status 2."""
    capsys.readouterr()
    assert main(words) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert re.search(".*".join(message), out.err, re.DOTALL), out.err
    assert out.err.count("\n") == 1


READERS = (["resume", "--quiet"], ["report"], ["analyse", "--curvature", "--quiet"])


@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
@pytest.mark.parametrize("name", ["done-0", "cut-0"])
def test_a_changed_setting(copy, words, name, capsys) -> None:
    """A learning rate edited in run.json, which resume used to take for the run's own."""
    folder = copy(name)
    text = (folder / "run.json").read_text()
    assert '"lr": 0.01' in text
    (folder / "run.json").write_text(text.replace('"lr": 0.01', '"lr": 0.07'))
    refused(
        [words[0], str(folder), *words[1:]],
        capsys,
        "run.json is damaged",
        "settings are not those",
        "new run",
    )


@pytest.mark.parametrize("words", [READERS[0], READERS[2]], ids=lambda words: words[0])
def test_the_checkpoint_of_another_seed(copy, words, capsys) -> None:
    folder, other = copy("cut-0"), copy("cut-1")
    shutil.rmtree(folder / "checkpoint")
    shutil.copytree(other / "checkpoint", folder / "checkpoint")
    before = sorted(path.name for path in (folder / "checkpoint").iterdir())
    refused(
        [words[0], str(folder), *words[1:]],
        capsys,
        "checkpoint of round 3 is not of this run",
        "Put back",
    )
    assert sorted(path.name for path in (folder / "checkpoint").iterdir()) == before


@pytest.mark.parametrize("words", [["resume", "--quiet"], ["report"]], ids=lambda words: words[0])
@pytest.mark.parametrize("name", ["done-0", "cut-0"])
@pytest.mark.parametrize("log", ["metrics", "recorded"])
def test_every_byte_of_a_log_counts(copy, words, name, log, capsys) -> None:
    folder = copy(name)
    path = folder / f"{log}.jsonl"
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for place in (second + 12, whole.index(b"\n", second), second - 3):
        path.write_bytes(whole)
        flip(path, place)
        line = 2 if place >= second else 1
        refused(
            [words[0], str(folder), *words[1:]],
            capsys,
            f"{log}.jsonl is damaged",
            f"line {line}",
            "from a copy",
        )
    lines = whole.splitlines(keepends=True)
    for wrong in (lines[1:], [lines[0], *lines[2:]], [lines[1], lines[0], *lines[2:]]):
        path.write_bytes(b"".join(wrong))
        refused([words[0], str(folder), *words[1:]], capsys, f"{log}.jsonl is damaged", "line [12]")


def test_lines_lost_at_the_end(copy, capsys) -> None:
    """Of a run that has ended, and of one whose checkpoint remembers them."""
    for name, why in (
        ("done-0", "it has 3 whole lines, and the run ended with 4"),
        ("cut-0", "after its line 3"),
    ):
        folder = copy(name)
        path = folder / "metrics.jsonl"
        path.write_bytes(
            b"".join(path.read_bytes().splitlines(keepends=True)[: 3 if name == "done-0" else 2])
        )
        refused(["resume", str(folder), "--quiet"], capsys, "metrics.jsonl is damaged", why)
        refused(["report", str(folder)], capsys, "metrics.jsonl is damaged", why)
        with pytest.raises(RunError, match=why):
            Result.read(folder)


def test_a_line_of_another_run(copy, capsys) -> None:
    folder, other = copy("done-0"), copy("done-1")
    shutil.copy(other / "metrics.jsonl", folder / "metrics.jsonl")
    refused(["report", str(folder)], capsys, "metrics.jsonl is damaged", "line 1")


def test_an_analysis_of_another_run(copy) -> None:
    folder, other = copy("done-1"), copy("done-0")
    shutil.copytree(other / "analysis", folder / "analysis")
    assert any("it belongs to another run" in output for output in collect([folder])["problems"])


def test_lost_and_damaged_models_are_written_again(copy, capsys) -> None:
    """All of them, bit for bit; until then the files cannot be confused."""
    folder = copy("done-0")
    whole = final(folder)
    assert set(whole) == {"final.safetensors", "final-server.safetensors"}
    flip(folder / "final.safetensors", -2)
    assert main(["analyse", str(folder), "--curvature", "--model", "server", "--quiet"]) == 2
    assert "'ema' is damaged (final.safetensors: it does not have the digest" in (
        output := capsys.readouterr().err
    )
    assert f"`fedflat resume {folder}` writes it again." in output
    (folder / "final-server.safetensors").unlink()
    assert main(["resume", str(folder), "--quiet"]) == 0
    assert (
        "written again from the checkpoint: the model 'server' and 'ema'" in capsys.readouterr().err
    )
    assert final(folder) == whole
    flip(folder / "final.safetensors", 9)
    shutil.rmtree(folder / "checkpoint")
    refused(["resume", str(folder), "--quiet"], capsys, "no checkpoint that can be read")


@pytest.mark.parametrize("name", ["done-0", "cut-0"])
def test_an_end_that_was_made_up(copy, name, capsys) -> None:
    folder = copy(name)
    path = folder / "run.json"
    output = ("done", "running") if name == "done-0" else ("running", "done")
    path.write_text(path.read_text().replace(*(f'"status": "{word}"' for word in output)))
    refused(
        ["resume", str(folder), "--quiet"], capsys, "run.json is damaged", "its end says otherwise"
    )


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["run.json", "study.json"])
def test_what_is_no_description(copy, name, odd, capsys) -> None:
    folder = copy("done-0" if name == "run.json" else "study")
    (folder / name).unlink()
    ODD[odd](folder / name)
    for words in READERS:
        refused([words[0], str(folder), *words[1:]], capsys, f"{name} is damaged", odd)


def test_a_run_in_the_place_of_another(copy, capsys) -> None:
    """Each is whole, but not what the study set out to run there."""
    folder = copy("study")
    first, second = sorted(folder.glob("*/seed-0"))
    for here, there in ((first, folder / "spare"), (second, first), (folder / "spare", second)):
        here.rename(there)
    refused(
        ["resume", str(folder), "--quiet"],
        capsys,
        str(first),
        "holds another run than the one its study names",
    )
    shutil.rmtree(second)
    shutil.copytree(first, second)
    found = collect([folder])
    assert [run["folder"] for run in found["runs"]] == [str(second)]
    assert any(
        str(first) in output and "holds another run" in output for output in found["problems"]
    )
    assert main(["analyse", str(folder), "--quiet"]) == 0
    assert f"{first} holds another run" in capsys.readouterr().err


@pytest.mark.parametrize("odd", [odd for odd in ODD if "must" not in odd])
@pytest.mark.parametrize("name", ["metrics.jsonl", "recorded.jsonl"])
def test_what_is_no_log(copy, name, odd, capsys) -> None:
    folder = copy("done-0")
    (folder / name).unlink()
    ODD[odd](folder / name)
    for words in READERS[:2]:
        refused([words[0], str(folder), *words[1:]], capsys, f"{name} is damaged")


@pytest.mark.parametrize("odd", ODD)
def test_what_is_no_analysis(copy, odd) -> None:
    folder = copy("done-0")
    path = next((folder / "analysis").glob("surface-*.json"))
    path.unlink()
    ODD[odd](path)
    found = collect([folder])
    assert len(found["runs"]) == 1
    assert any(output.startswith(f"{path} is damaged (") for output in found["problems"])


@pytest.mark.parametrize("odd", ["a named pipe", "a link", "utf-8"])
def test_what_is_no_folder_of_analyses(copy, odd) -> None:
    folder = copy("done-0")
    shutil.rmtree(folder / "analysis")
    ODD[odd](folder / "analysis")
    found = collect([folder])
    assert len(found["runs"]) == 1
    assert any(f"{folder / 'analysis'} cannot be read" in output for output in found["problems"])


def test_what_others_put_beside_checkpoints_stays_there(copy) -> None:
    """A notebook's folder, a sync client's copy, and a folder with the name of a list."""
    folder = copy("cut-0")
    place = folder / "checkpoint"
    shutil.copy(place / "round-0000003.json", place / "round-0000003 (conflicted copy).json")
    for name in (".ipynb_checkpoints", "round-0000009.json", "0000001-1-1.safetensors"):
        (place / name).mkdir()
        (place / name / "mine").touch()
    assert resume(folder)[0].status == "done"
    assert sum(path.name == "mine" for path in place.rglob("*")) == 3
    assert (place / "round-0000003 (conflicted copy).json").exists()


@pytest.mark.parametrize(
    "name", ["lock", "metrics.jsonl", "recorded.jsonl", "checkpoint/clients.bin"]
)
def test_links_lead_nowhere(copy, name, tmp_path, capsys) -> None:
    folder, attacked = copy("cut-0"), tmp_path / "victim"
    attacked.write_text("precious")
    (folder / name).unlink()
    (folder / name).symlink_to(attacked)
    assert main(["resume", str(folder), "--quiet"]) == 2
    assert "link" in capsys.readouterr().err
    assert attacked.read_text() == "precious"


@pytest.mark.parametrize("name", ["run.json", "report.html", "final.safetensors"])
def test_the_name_of_a_new_file_cannot_be_occupied(copy, name, tmp_path) -> None:
    folder, attacked = copy("cut-0"), tmp_path / "victim"
    attacked.write_text("precious")
    for trap in (f"{name}.new", f"{name}.{os.getpid()}.new", name):
        if trap != "run.json":
            (folder / trap).symlink_to(attacked)
    assert main(["resume", str(folder), "--quiet"]) == 0
    assert main(["report", str(folder)]) == 0
    assert attacked.read_text() == "precious"


def test_a_folder_of_checkpoints_that_is_elsewhere(copy, tmp_path, capsys) -> None:
    """Through a link, what lies there would be swept away."""
    folder = copy("cut-0")
    (folder / "checkpoint").rename(tmp_path / "elsewhere")
    (folder / "checkpoint").symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").iterdir())
    refused(
        ["resume", str(folder), "--quiet"], capsys, "checkpoint could not be written: it is a link"
    )
    assert sorted((tmp_path / "elsewhere").iterdir()) == before


@pytest.mark.parametrize(
    "place", ["{outside}", "../outside", "a/../../outside", "link/run", "a\0b", ""]
)
def test_a_study_stays_in_its_folder(copy, place, tmp_path, capsys) -> None:
    from fedflat.experiments.run_folder.schema import write_signed

    folder, outside = copy("study"), tmp_path / "outside"
    outside.mkdir()
    (folder / "link").symlink_to(outside)
    plan = json.loads((folder / "study.json").read_text())
    plan["runs"][0]["folder"] = place.format(outside=outside)
    del plan["digest"]
    write_signed(folder / "study.json", plan)
    if place:
        refused(
            ["resume", str(folder), "--quiet"], capsys, "study.json is damaged", "is not inside"
        )
    assert list(outside.iterdir()) == []


def test_infinity_is_not_nan(tmp_path: Path) -> None:
    inf = float("inf")
    log = JsonlLog(tmp_path, "recorded", "x")
    for value in (inf, -inf, float("nan"), 1.5):
        log.append({"round": 1, "norm": value, "of": [value], "text": "inf"})
    rows = log.read()
    assert [row["norm"] for row in rows[:2]] == [inf, -inf]
    assert str(rows[2]["norm"]) == "nan"
    assert rows[3] == {"round": 1, "norm": 1.5, "of": [1.5], "text": "inf"}
    assert json.loads(encode({"x": -inf})) == {"x": -inf}


def test_a_line_cut_short_is_dropped(copy) -> None:
    folder = copy("cut-0")
    whole = read_rows(folder)
    with open(folder / "metrics.jsonl", "a") as stream:
        stream.write('{"round": 4, "loss"')
    assert read_rows(folder) == whole
