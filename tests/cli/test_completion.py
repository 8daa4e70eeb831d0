"""The scripts that complete commands in a shell."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import pytest

from fedflat.cli.completion import KIND_OF_ARGUMENT, KIND_OF_OPTION, SHELLS, commands, names
from fedflat.cli.main import main
from fedflat.cli.parser import build
from fedflat.registry.specs import KINDS, registered

TRIED = {
    "fedflat r": "report reproduce resume run",
    "fedflat run fedgl": "fedgloss",
    "fedflat run fedavg --mod": "--model",
    "fedflat run fedavg --on cif": "cifar10 cifar100",
    "fedflat run fedavg --dtype ": "float32 float64 mixed",
    "fedflat run fedavg --out ": "",
    "fedflat data ": "list get show",
    "fedflat data show --gr": "--groups",
    "fedflat completion ": "bash zsh fish",
}


def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    lines = [capsys.readouterr().out]
    for line in TRIED:
        words = " ".join(f"'{word}'" for word in line.split(" "))
        lines.append(
            f"COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); COMPREPLY=(); "
            '_fedflat; echo "${COMPREPLY[*]}"'
        )
    script = tmp_path / "try.bash"
    script.write_text("\n".join(lines))
    done = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    found = done.stdout.splitlines()
    assert dict(zip(TRIED, found, strict=True)) == TRIED


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_have_all_commands_and_options(shell: str) -> None:
    script = SHELLS[shell](build())
    for command in commands(build()):
        assert command.path.split()[-1] in script
        for option in command.options:
            assert (option if shell != "fish" else f"-l {option[2:]}") in script


def test_names_are_those_of_the_registry() -> None:
    kinds = {plural: kind for kind, plural in KINDS.items()}
    for plural in {*KIND_OF_OPTION.values(), *KIND_OF_ARGUMENT.values()} - {"presets"}:
        known = {entry.name for entry in registered(kinds[plural])}
        assert names(plural), plural
        assert set(names(plural)) <= known, plural


def test_the_options_exist() -> None:
    options = {option for command in commands(build()) for option in command.options}
    assert set(KIND_OF_OPTION) <= options
    assert set(KIND_OF_ARGUMENT) <= {command.path for command in commands(build())}


def test_texts_are_quoted_for_fish() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    inner = parser.add_subparsers().add_parser("go", help="it's \\ here")
    inner.add_argument("--fast", action="store_true", help="50%% 'quick'")
    script = SHELLS["fish"](parser)
    assert r"-a go -d 'it\'s \\ here'" in script
    assert r"-l fast -d '50% \'quick\''" in script
