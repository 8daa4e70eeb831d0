"""Help, examples, and what is answered to words that are often written by mistake."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import fedflat as ff
from fedflat.cli.main import main
from fedflat.cli.parser import CORRECTIONS, ELSEWHERE, build, builtin

VERBS = builtin()
LINES = [(name, line) for name, verb in VERBS.items() for line in getattr(verb, "EXAMPLES", ())]


def test_fedflat_alone_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    helps = []
    for words in ([], ["--help"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        helps.append(capsys.readouterr().out)
    assert helps[0] == helps[1]
    assert "Put quotes around arguments with parentheses" in helps[0]


@pytest.mark.parametrize("name", VERBS)
def test_every_command_has_examples_in_its_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    output = capsys.readouterr().out
    lines = VERBS[name].EXAMPLES
    assert "\n".join(["examples:", *(f"  {line}" for line in lines)]) in output
    assert ("Put quotes around arguments with parentheses" in output) == any(
        "(" in line for line in lines
    )


@pytest.mark.parametrize(("name", "line"), LINES, ids=[line for _, line in LINES])
def test_examples_are_right(name: str, line: str) -> None:
    program, *words = shlex.split(line)
    assert (program, words[0]) == ("fedflat", name)
    if words[-1] == "--help":
        with pytest.raises(SystemExit) as ended:
            build(words).read(words)
        assert ended.value.code == 0
    else:
        assert build(words).read(words).command == name


@pytest.mark.parametrize("word", CORRECTIONS)
def test_words_that_are_tried_for_commands(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([word, "fedavg"])
    assert ended.value.code == 2
    assert f"unknown word '{word}'. Did you mean '{CORRECTIONS[word]}'?" in capsys.readouterr().err
    assert CORRECTIONS[word].split()[0] in VERBS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--on", "dirichlet(0.1)"],
            'Write it inside a data set, such as "digits(dirichlet(...))"',
        ),
        (["--on", "image_folder(pictures)"], "in a shell quote the whole: --on \"image_folder('"),
        (["--on", "csv(3)"], "in a shell quote the whole: --on \"csv('wine.csv')\""),
        (["--on", "csv(wine)"], "Write texts and paths in quotes"),
        (["--on", "csv(folder/wine.csv, target=quality)"], "Write texts and paths in quotes"),
        (["--lr", "0,1"], "Write decimals with a point: 0.1."),
        (["--on", "cifar-10"], "Did you mean 'cifar10'?"),
        (["--on", "Tiny ImageNet"], "Did you mean 'tiny_imagenet'?"),
        (["--on", "fedavg"], "A method is the first argument."),
        (["--on", "photos/train"], "write \"image_folder('photos/train')\", in a shell with both"),
        (["--on", "wine.csv"], "write \"csv('wine.csv', target='COLUMN')\", in a shell with both"),
        (["--model", "resnet-18"], "Did you mean 'resnet18'?"),
    ],
)
def test_answers(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "fedavg", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_in_place_of_a_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one that is called as something else that has a name."""
    monkeypatch.chdir(tmp_path)
    for name in ("photos", "pictures"):
        assert main(["run", "fedavg", "--on", name]) == 2
        assert "image_folder" not in capsys.readouterr().err
        (tmp_path / name).mkdir()
        assert main(["run", "fedavg", "--on", name]) == 2
        assert f"write \"image_folder('{name}')\"" in capsys.readouterr().err


@pytest.mark.parametrize("answer", ELSEWHERE)
def test_options_of_other_libraries(answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    for word in ELSEWHERE[answer].split():
        with pytest.raises(SystemExit):
            main(["run", "fedavg", f"--{word}", "1"])
        text = f"Did you mean '{answer}'?" if answer.startswith("--") else answer
        assert text in capsys.readouterr().err, word
    with pytest.raises(SystemExit):
        main(["report", "runs", "--alpha", "1"])
    assert "partition" not in capsys.readouterr().err


def test_names_of_another_kind_for_methods(capsys: pytest.CaptureFixture[str]) -> None:
    for name, option in (("digits", "on (--on)"), ("cnn", "model (--model)")):
        assert main(["run", name]) == 2
        assert f"is given as {option}." in capsys.readouterr().err
    assert main(["run", "fed-avg"]) == 2
    assert "Did you mean 'fedavg'?" in capsys.readouterr().err


def test_methods_are_added_to_texts() -> None:
    expected = ff.fedavg() + ff.swa()
    assert repr(ff.fedavg() + "swa()") == repr(expected)
    assert repr("fedavg" + ff.swa()) == repr(expected)
    with pytest.raises(TypeError):
        ff.fedavg() + 3


def test_data_may_be_the_second_argument() -> None:
    more = {"rounds": 1, "clients_per_round": 2, "quiet": True}
    one = ff.run("fedavg", "digits(lda(0), clients=5)", **more)
    other = ff.run("fedavg", on="digits(lda(0), clients=5)", **more)
    assert one.rows[-1]["accuracy"] == other.rows[-1]["accuracy"]
    assert len(ff.compare(["fedavg"], "digits(lda(0), clients=5)", **more)) == 1
