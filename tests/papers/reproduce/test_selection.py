"""Which cells a command selects."""

from __future__ import annotations

import re
import shlex
from inspect import signature
from pathlib import Path

import pytest

import fedflat as ff
from fedflat.cli import main
from fedflat.cli.parser import build
from fedflat.errors import SettingError, SpellingError
from fedflat.papers.presets import every
from fedflat.papers.reproduce.cells import TableCell
from fedflat.papers.reproduce.selection import cells_of, expand_patterns, find_table


def names(table: str, *patterns: str) -> list[str]:
    return [cell.name for cell in cells_of(find_table(table), patterns)]


def test_the_two_cells_of_a_column() -> None:
    both = ["fedgloss/cifar10-cnn-alpha0-fedavg", "fedgloss/cifar10-cnn-alpha0-fedgloss"]
    assert (
        names("fedgloss/table3", "cifar10-cnn-alpha0-{fedgloss,fedavg}") == both
    )  # in the order of the table
    assert names("fedgloss/table3", *both) == both
    assert names("fedgloss/table3", "cifar10-cnn-alpha0-fedavg,cifar10-cnn-alpha0-fedgloss") == both
    assert names("fedgloss/cifar10-cnn-alpha0-{fedavg,fedgloss}", "*") == both


def test_a_table_has_the_presets_that_name_it_and_no_others() -> None:
    of_paper = [preset for preset in every() if preset.name.startswith("wima/")]
    assert names("wima/table4.24", "*") == [
        preset.name for preset in of_paper if preset.table == "Table 4.24"
    ]
    assert names("wima", "*") == [preset.name for preset in of_paper]


def test_one_preset_or_the_main_run_of_a_column() -> None:
    assert names("man/cifar10-delta0.3-fedavg") == ["man/cifar10-delta0.3-fedavg"]
    assert names("man/cifar10-delta0.3") == ["man/cifar10-delta0.3-fedavg-man"]


def test_a_large_table_is_not_run_by_mistake() -> None:
    with pytest.raises(
        SettingError, match=r"fedgloss/table3 has \d+ cells, [\d,]+ rounds in all\. Select cells"
    ):
        names("fedgloss/table3")
    assert len(names("toy")) == 4


@pytest.mark.parametrize(
    ("table", "patterns", "message"),
    [
        (
            "fedglos/table3",
            (),
            "no table, preset or file is called 'fedglos/table3'. Did you mean 'fedgloss/table3'",
        ),
        ("fedgloss/nothing*", (), "no preset matches"),
        ("toy", ("fedavgg",), "no cell of toy matches 'fedavgg'. Did you mean 'fedavg'"),
        ("toy", ("fedavg", "feddyn*"), "no cell of toy matches 'feddyn"),
    ],
)
def test_unknown(table: str, patterns: tuple[str, ...], message: str) -> None:
    with pytest.raises(SpellingError, match=message.replace("*", r"\*")):
        names(table, *patterns)


@pytest.mark.parametrize("word", ["a" * 300, "(" * 5000, "a\0b"])
def test_words_that_are_no_file_name(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", word]) == 2
    output = capsys.readouterr().err
    assert "no table, preset or file is called" in output
    assert len(output) < 1500


def test_patterns() -> None:
    assert list(expand_patterns("{a,b}-{c,d}")) == ["a-c", "a-d", "b-c", "b-d"]
    assert list(expand_patterns("a, b")) == ["a", "b"]


def test_the_toy_table_is_the_one_of_the_readme() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    command = re.search(r"fedflat (compare fedavg [^`]*)```", readme)
    assert command
    asked = vars(build().read(shlex.split(command[1].replace("\\\n", ""))))
    typed = {
        name: asked[name]
        for name in signature(ff.experiment).parameters
        if asked.get(name) is not None
    }
    for cell in find_table("toy").cells:
        assert f"| `{cell.arguments['method']}` | {cell.figure} |" in readme
        assert {name: value for name, value in cell.arguments.items() if name != "method"} == typed


def test_seeds() -> None:
    authors = TableCell(name="a/b", arguments={}, reported=1.0, seeds=(0, 42, 200299))
    assert authors.seeded(None) == [0]
    assert authors.seeded(2) == [0, 42]
    assert authors.seeded([7, 8]) == [7, 8]
    with pytest.raises(
        SettingError, match="4 seeds were requested, but the authors of a/b have 3: 0, 42, 200299"
    ):
        authors.seeded(4)
    assert TableCell(name="a/b", arguments={}, reported=1.0).seeded(3) == [0, 1, 2]


def test_a_cell_knows_what_a_preset_says() -> None:
    for preset in every():
        cell = TableCell.of(preset)
        assert cell.figure == preset.figure
        assert (cell.rounds, cell.seeds, cell.measure) == (
            preset.rounds,
            preset.seeds,
            preset.measure,
        )
        assert "seed" not in cell.arguments
