"""The built files: a wheel and a source distribution that work away from the repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import fedflat

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
DATA = ("fedflat/py.typed", "fedflat/__init__.pyi", "fedflat/report/assets/page.css")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source distribution of the repository, and the wheel that is built from it."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run([*build, "--target", "sdist"], cwd=ROOT, check=True)
    (source,) = folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / source.name.removesuffix(".tar.gz")
    subprocess.run([*build, "--target", "wheel"], cwd=unpacked, check=True)
    (wheel,) = folder.glob("*.whl")
    return source, wheel


def test_the_wheel_has_all_files_of_the_package(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        packed = {name for name in archive.namelist() if name.startswith("fedflat/")}
    source = ROOT / "src"
    present = {
        str(file.relative_to(source))
        for file in (source / "fedflat").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert packed == present
    assert packed.issuperset(DATA)


def test_the_package_works_outside_the_repository(built: tuple[Path, Path], tmp_path: Path) -> None:
    """A run with worker processes, its analyses and its page, with the package of the wheel."""
    with zipfile.ZipFile(built[1]) as archive:
        archive.extractall(tmp_path / "site")
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}

    def python(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=work, env=environment, text=True, stdout=subprocess.PIPE
        )
        assert done.returncode == 0, words
        return done.stdout

    asked = "import fedflat; print(fedflat.__file__, fedflat.__version__)"
    place, version = python("-c", asked).split()
    assert place.startswith(str(tmp_path / "site"))
    assert version == fedflat.__version__
    run = "run fedavg --on digits(lda(0.5),clients=10) --rounds 3 --workers 2 --out run".split()
    python("-m", "fedflat", *run)
    python("-m", "fedflat", "analyse", "run", "--surface")
    python("-m", "fedflat", "report", "run", "--out", "page.html")
    assert "</html>" in (work / "page.html").read_text()
    assert json.loads((work / "run" / "run.json").read_text())["fedflat"] == version
    assert "fedgloss" in python("-m", "fedflat", "list", "methods")
