"""Plugins that add a command, a metric, a logger or an executor."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

import fedflat as ff
from experiments.small import ON, Eager, stop_at
from fedflat.cli import main
from fedflat.experiments.execution_config import ExecutionConfig, executor_text
from fedflat.experiments.run_folder.record import read_rows
from fedflat.report.collect import collect
from plugins.forgetting import forget

COMMAND = """
import fedflat as ff

@ff.register("command", "hello")
class Hello:
    \"\"\"greet somebody\"\"\"

    def add_arguments(self, parser):
        parser.add_argument("name")
        parser.add_argument("--loud", action="store_true")

    def run(self, args):
        print(args.name.upper() if args.loud else args.name)
        return 3
"""
OTHERS = """
from dataclasses import dataclass
from pathlib import Path

import fedflat as ff

@ff.register("metric", "largest")
@dataclass(frozen=True, repr=False)
class Largest(ff.Metric):
    \"\"\"The largest parameters.\"\"\"

    top: int = 1
    title, note, entries = "Largest parameters", "By their absolute values.", "place"

    def cost(self, ready):
        return "nothing"

    def on_round_end(self, s, new):
        return {self.key: new.model.params.abs().topk(self.top).values.tolist()}

@ff.register("logger", "lines")
class Lines(ff.Logger):
    \"\"\"Lines in a text file.\"\"\"

    def __init__(self, name="log.txt"):
        self.file_name = name

    def begin(self, folder, record, done):
        self.path = folder / "lines" / self.file_name

    def row(self, round, numbers):
        with self.path.open("a") as stream:
            print(round, *sorted(numbers), file=stream)

    def end(self, status):
        with self.path.open("a") as stream:
            print(status, file=stream)

@ff.register("executor", "backwards")
@dataclass(frozen=True, repr=False)
class Backwards(ff.InProcess):
    \"\"\"In this process, with a field of its own.\"\"\"

    label: str = "x"
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hello.py").write_text(COMMAND)
    (tmp_path / "others.py").write_text(OTHERS)
    return tmp_path


def test_a_command(plugin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hello", "world", "--loud", "--plugin", "hello.py"]) == 3
    assert capsys.readouterr().out == "WORLD\n"
    assert main(["list", "commands", "--plugin", "hello.py"]) == 0
    assert re.search(r"^hello +greet somebody$", capsys.readouterr().out, re.MULTILINE)
    forget()
    with pytest.raises(SystemExit):
        main(["hello", "world"])
    assert "unknown word 'hello'" in capsys.readouterr().err


def test_a_command_of_fedflat_is_not_replaced(
    plugin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (plugin / "hello.py").write_text(COMMAND.replace('"hello"', '"report"'))
    assert main(["mine", "--plugin", "hello.py"]) == 2
    assert (
        "fedflat has a command 'report' already. Register it under another name."
        in capsys.readouterr().err
    )


def test_a_metric_a_logger_and_an_executor(
    plugin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--on",
        ON,
        "--rounds",
        "2",
        "--clients-per-round",
        "2",
        "--model",
        "logistic",
        "--eval-every",
        "1",
    ]
    words += [
        "--record",
        "largest(top=3), norms",
        "--logger",
        "lines(name='mine.txt')",
        "--plugin",
        "others.py",
    ]
    assert (
        main(
            [
                "run",
                "fedavg",
                *words,
                "--executor",
                "backwards(label='y', threads=1)",
                "--out",
                "run",
            ]
        )
        == 0
    )
    saved = json.loads(Path("run/run.json").read_text())
    assert saved["how"]["executor"] == "backwards(label='y', threads=1)"
    assert [len(row["largest(top=3)"]) for row in read_rows(Path("run"), "recorded")] == [3, 3]
    assert Path("run/lines/mine.txt").read_text().splitlines()[-1] == "done"
    assert any(
        "largest(top=3)/2 norms" in line
        for line in Path("run/lines/mine.txt").read_text().splitlines()
    )
    forget()  # the report needs no plugin: the run folder has the labels
    found = collect([Path("run")])
    assert found["recorded"]["largest(top=3)"]["title"] == "Largest parameters"
    assert [(one["key"], len(one["values"])) for one in found["heatmaps"]] == [
        ("largest(top=3)", 3)
    ]
    capsys.readouterr()
    assert main(["list", "metrics", "--plugin", "others.py"]) == 0
    assert re.search(r"^largest\(top=1\) +The largest parameters\.$", capsys.readouterr().out, re.M)


@pytest.mark.parametrize(
    ("option", "text", "without"),
    [
        ("record", "largest(top=3), norms", "none"),
        ("logger", "lines", "none"),
        ("executor", "backwards(label='y', threads=1)", "in-process"),
    ],
)
def test_a_run_goes_on_with_its_plugin_or_without_it(
    plugin: Path, capsys: pytest.CaptureFixture[str], option: str, text: str, without: str
) -> None:
    ff.load_plugin("others.py")
    exp = ff.experiment("fedavg", ON, rounds=3, clients_per_round=2, model="logistic")
    how = ExecutionConfig(**{option: text}).as_json()
    run_folder = Eager.create(Path("run"), exp.texts(), how, pause=0.0)
    with closing(run_folder), pytest.raises(KeyboardInterrupt):
        ff.train(exp, run_folder=run_folder, on_progress=stop_at(1))
    forget()
    capsys.readouterr()
    assert main(["resume", "run"]) == 2
    assert re.search(
        rf"begun with --{option} .*unknown .*If a plugin has it, name the plugin again \(--plugin",
        capsys.readouterr().err,
    )
    assert main(["resume", "run", "--until", "2", "--plugin", "others.py"]) == 0
    forget()
    assert main(["resume", "run", f"--{option}", without]) == 0
    assert read_rows(Path("run"), "metrics")[-1]["round"] == 3


def test_an_executor_given_in_python_is_written_as_text(plugin: Path) -> None:
    ff.load_plugin("others.py")
    made = ff.parse("backwards(label='z')", "executor")
    assert executor_text(made) == {"executor": "backwards(label='z')"}
    assert ExecutionConfig(**executor_text(made)).make() == made

    class Unregistered(type(made)):
        pass

    assert executor_text(Unregistered()) == {"executor": None}
