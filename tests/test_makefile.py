"""When `make run` and `make test` make the environment anew. `make -n` prints the commands and runs
none."""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small checkout, in a folder with a space, whose environment is complete."""
    folder = tmp_path / "my checkout"
    package = folder / "src" / "fedflat"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
        os.utime(folder / name, (1, 1))
    venv.create(folder / ".venv", symlinks=True)
    [packages] = (folder / ".venv" / "lib").glob("python*/site-packages")
    (packages / "fedflat.pth").write_text(str(package.parent))
    for place, stamp in enumerate(("installed", "ready"), 2):
        (folder / ".venv" / stamp).touch()
        os.utime(folder / ".venv" / stamp, (place, place))
    return folder


def commands(folder: Path, target: str) -> list[str]:
    """What `make` would run, as beginnings of lines."""
    drop = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "PYTHON")
    environment = {name: value for name, value in os.environ.items() if name not in drop}
    done = subprocess.run(
        ["make", "-n", target],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line.strip() for line in done.stdout.splitlines()]


def makes_anew(folder: Path) -> bool:
    """Whether both targets make the whole environment anew; if not, neither installs anything."""
    first = [commands(folder, target)[:2] for target in ("run", "test")]
    anew = [["rm -rf .venv", "python3 -m venv .venv"]] * 2
    installs = any(
        "pip install" in line for target in ("run", "test") for line in commands(folder, target)
    )
    assert (first == anew) == installs
    return installs


def test_a_complete_environment_is_used_as_it_is(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not makes_anew(checkout)
    other = checkout / "other" / "fedflat"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(other.parent))
    assert not makes_anew(checkout)


def test_without_an_environment_one_is_made(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    assert makes_anew(checkout)


def test_an_environment_whose_python_is_gone_is_made_anew(checkout: Path) -> None:
    for path in (checkout / ".venv" / "bin").glob("python*"):
        path.unlink()
    (checkout / ".venv" / "bin" / "python").symlink_to(checkout / "no" / "such" / "python")
    assert makes_anew(checkout)


@pytest.mark.parametrize("copied", [shutil.copy2, os.link])
def test_a_copied_checkout_makes_its_own_environment(
    checkout: Path, copied: Callable[[str, str], object]
) -> None:
    """Be its files copies or hard links."""
    copy = checkout.parent / "copy"
    shutil.copytree(checkout, copy, symlinks=True, copy_function=copied)
    assert makes_anew(copy)
    assert not makes_anew(checkout)


def test_a_moved_checkout_makes_its_environment_anew(checkout: Path) -> None:
    assert makes_anew(checkout.rename(checkout.parent / "moved"))


def test_new_requirements_are_installed_into_the_environment_there_is(checkout: Path) -> None:
    (checkout / "pyproject.toml").touch()
    for target in ("run", "test"):
        lines = commands(checkout, target)
        assert lines[0] == "python3 -m venv .venv"
        assert ".venv/bin/python -m pip install" in lines[1]
