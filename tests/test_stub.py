"""The lists of public names that are made from the registered ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fedflat
from fedflat import public

STALE = "run `python -m fedflat.public`"


def test_every_name_in_texts_is_listed() -> None:
    assert public.EXPORTS.read_text() == public.exports_text(), STALE


def test_type_checkers_see_every_public_name() -> None:
    assert public.STUB.read_text() == public.stub(), STALE
    names = [line.split()[-1] for line in public.stub().splitlines() if line.startswith("from ")]
    assert sorted(names) == sorted(fedflat.__all__)


@pytest.mark.usefixtures("warm_processes")
def test_lists_of_names_are_up_to_date() -> None:
    """In a process of its own, where no other test has registered names."""
    done = subprocess.run(
        [sys.executable, "-m", "fedflat.public", "--check"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, ""), STALE


def test_an_old_list_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed, left = tmp_path / "methods.txt", tmp_path / "gone.txt"
    changed.write_text("fedavg")
    left.write_text("")
    monkeypatch.setattr(public, "LISTINGS", tmp_path)
    monkeypatch.setattr(public, "generated", lambda: {changed: "fedprox", tmp_path / "new": ""})
    assert public.stale() == [left, changed, tmp_path / "new"]


def test_no_name_in_texts_is_listed_by_hand() -> None:
    by_hand = [name for names in fedflat._HOMES.values() for name in names]
    assert not set(by_hand) & set(public.EXPORTS.read_text().split('"'))
