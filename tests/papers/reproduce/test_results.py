"""The runs in results/: their files are intact, and tables agree with the runs."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from matplotlib.figure import Figure

from fedflat.cli import main
from fedflat.errors import RunError
from fedflat.experiments.run_folder.groups import read_groups
from fedflat.experiments.run_folder.record import read_record, read_rows
from fedflat.experiments.run_folder.study_file import runs_in
from fedflat.papers.presets import every
from fedflat.papers.reproduce.cells import TableCell
from fedflat.papers.reproduce.export import _panel as panel
from fedflat.papers.reproduce.export import as_csv, draw, markdown
from fedflat.papers.reproduce.plan import open_plan
from fedflat.papers.reproduce.selection import find_table
from fedflat.papers.reproduce.verdict import lines
from papers.reproduce.test_reproduce import reproduce

RESULTS = Path(__file__).parents[3] / "results"
KEPT = sorted(path.parent for path in RESULTS.glob("*/study.json"))
SETTINGS: dict[str, Any] = {
    "on": "digits(lda(0), clients=10)",
    "model": "mlp(hidden=[4])",
    "rounds": 6,
    "clients_per_round": 2,
    "eval_every": 2,
    "eval_last": 1,
}
ROWS: list[dict[str, Any]] = [
    {"name": "plain", "method": "fedavg()", "reported": 50.0},
    {"name": "chains", "method": "fedseq(groups=2)", "reported": 60.0},
]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, RESULTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def collecting() -> ModuleType:
    return script("collect")


def test_folders_of_the_older_format_are_converted(tmp_path: Path) -> None:
    """A study with recorded metrics, rewritten as version 0.3 wrote it; groups are signed with the
    identity."""
    import fedflat as ff

    methods = ["fedavg", "fedseq(groups=2)"]
    ff.compare(
        methods,
        out=tmp_path / "new",
        record="norms,features,drift",
        quiet=True,
        threads=1,
        **SETTINGS,
    )
    shutil.copytree(tmp_path / "new", tmp_path / "old")
    old_words = {'"record"': '"watch"', '"logger"': '"track"', '"recorded"': '"watch"'}
    for path in (tmp_path / "old").rglob("*.json*"):
        text = path.read_text()
        if path.name in ("run.json", "study.json"):
            saved = json.loads(text)
            saved.pop("recorded", None)
            text = json.dumps(saved)
            for new, old in old_words.items():
                text = text.replace(new, old)
        if path.name == "recorded.jsonl":
            text = text.replace('"norms"', '"param_norm"').replace('"features"', '"feature_norms"')
            path.unlink()
            path = path.with_name("watch.jsonl")
        path.write_text(text)
    converting = script("convert")
    converting.convert(tmp_path / "old")
    for new, old in zip(runs_in(tmp_path / "new"), runs_in(tmp_path / "old"), strict=True):
        record = read_record(old)
        assert record.recorded == read_record(new).recorded
        assert record.execution == read_record(new).execution
        for name in ("metrics", "recorded"):
            assert read_rows(old, name) == read_rows(new, name)
        assert read_groups(old, record.identity) == read_groups(new, record.identity)
    before = {path: path.read_bytes() for path in (tmp_path / "old").rglob("*.json*")}
    converting.convert(tmp_path / "old")
    assert before == {path: path.read_bytes() for path in (tmp_path / "old").rglob("*.json*")}


@pytest.mark.parametrize("folder", KEPT, ids=lambda folder: folder.name)
def test_what_is_kept_is_as_it_was_written(folder: Path) -> None:
    runs = runs_in(folder)
    assert sorted(runs) == sorted(path.parent for path in folder.glob("*/seed-*/run.json"))
    for run in runs:
        record = read_record(run)
        assert record.as_json()["origin"].get("place") is None
        assert record.as_json() == json.loads((run / "run.json").read_text())
        assert read_rows(run, record=record)
        read_groups(run, record.identity)


def test_the_first_rise_may_leave_the_figure() -> None:
    """Methods that end within two points of each other are distinguished, though they began at a
    tenth of it."""
    axis = Figure().subplots()
    shown = lines(open_plan(RESULTS / "fedfsa-table1", reading=True))
    panel(axis, "", shown)
    curves = [line.get_ydata() for line in axis.lines if len(line.get_ydata()) > 2]
    low, high = axis.get_ylim()
    assert [min(curve) < 20 for curve in curves] == [True, True]
    assert high - low < 15
    for line, curve in zip(shown, curves, strict=True):
        assert low < line.status.entry.cell.reported < high
        assert low < min(curve[25:]) < max(curve) < high


def test_a_figure_drawn_twice_has_the_same_bytes(tmp_path: Path) -> None:
    drawn = []
    for name in ("one", "two"):
        shutil.copytree(RESULTS / "fedfsa-table1", tmp_path / name)
        plan = open_plan(tmp_path / name, reading=True)
        assert draw(plan, lines(plan)) == []
        drawn.append((tmp_path / name / "accuracy.svg").read_bytes())
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    "folder", [one for one in KEPT if (one / "reproduce.json").exists()], ids=lambda one: one.name
)
def test_tables_say_what_their_runs_say(folder: Path) -> None:
    plan = open_plan(folder, reading=True)
    assert (folder / "table.md").read_text() == markdown(plan, lines(plan))
    assert (folder / "table.csv").read_text() == as_csv(plan, lines(plan))


@pytest.mark.parametrize(
    "folder", [one for one in KEPT if (one / "reproduce.json").exists()], ids=lambda one: one.name
)
def test_tables_have_the_numbers_of_the_presets(folder: Path) -> None:
    """Settings of presets may have changed since a run was made; what the papers print has not."""
    known = {preset.name: TableCell.of(preset) for preset in every()}
    known |= {
        cell.name: cell for path in folder.glob("*.toml") for cell in find_table(str(path)).cells
    }
    for entry in open_plan(folder, reading=True).entries:
        own, plain = entry.cell, known[entry.cell.name.partition("+")[0]]
        expected = plain if own.name in known else plain.with_average("wima()")
        assert (own.figure, own.table, own.measure) == (
            expected.figure,
            expected.table,
            expected.measure,
        )


@pytest.mark.slow
def test_runs_of_two_machines_are_collected_into_one_table(
    collecting: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, kept = tmp_path / "mine.json", tmp_path / "kept"
    path.write_text(json.dumps({"settings": SETTINGS, "rows": ROWS}))
    here, there = tmp_path / "here", tmp_path / "there"
    assert reproduce(path, "--cells", "plain", "--rounds", 4, "--out", here) == 0
    assert reproduce(path, "--cells", "chains", "--out", there) == 0
    for runs in (here, there, here):
        collecting.collect(runs, kept)
    assert [cell.label for cell in lines(open_plan(kept, reading=True))] == ["plain", "chains"]
    assert "4 of 6" in (kept / "table.md").read_text()
    for folder, run in ((here, "plain/seed-0"), (there, "chains/seed-0")):
        before, after = read_record(folder / run), read_record(kept / run)
        assert after.experiment == before.experiment
        assert read_rows(kept / run) == read_rows(folder / run)
        assert read_groups(kept / run, after.identity) == read_groups(folder / run, before.identity)
    assert read_record(kept / "chains/seed-0").status == "done"
    assert (
        read_groups(kept / "chains/seed-0", read_record(kept / "chains/seed-0").identity)
        is not None
    )
    assert str(tmp_path) not in "".join(one.read_text() for one in kept.glob("*/seed-*/run.json"))
    commands = [made["command"] for made in open_plan(kept, reading=True).commands]
    assert [command.count("--cells") for command in commands] == [1, 1]
    assert not [command for command in commands if "--out" in command]
    assert "last of 2 commands: " in (kept / "accuracy.svg").read_text()
    assert not [*kept.rglob("*.safetensors"), *kept.rglob("*.png")]
    capsys.readouterr()
    assert main(["report", str(kept)]) == 0
    assert "damaged" not in capsys.readouterr().err
    plan = json.loads((here / "reproduce.json").read_text())
    plan["entries"][0]["cell"]["reported"] = 51.0
    (here / "reproduce.json").write_text(json.dumps(plan))
    with pytest.raises(RunError, match="is damaged"):
        collecting.collect(here, kept)

    rows = kept / "plain/seed-0/metrics.jsonl"
    rows.write_text(rows.read_text().replace('"round": 2', '"round": 1', 1))
    assert reproduce(kept, "--table") == 0
    output = capsys.readouterr()
    assert (
        "plain/seed-0/metrics.jsonl is damaged (line 1 is not the one that was written there)"
        in output.err
    )
    assert "not decided yet (a run cannot be read)" in output.out
    assert " damaged " in output.out
