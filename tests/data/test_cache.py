"""Data are opened once per seed, even if several runs of a study use them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import fedflat as ff
from fedflat.cli import main
from fedflat.data.cache import opened, opened_once
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.sets.scikit import Digits

SMALL: dict[str, Any] = {
    "rounds": 1,
    "clients_per_round": 2,
    "quiet": True,
    "executor": "in-process",
}


@dataclass(frozen=True, repr=False)
class Counted(DataSpec):
    """Digits that write down the seeds they are opened for."""

    seeds: list[int] = field(default_factory=list)

    def open(self, seed: int) -> Federation:
        """See `DataSpec.open`."""
        self.seeds.append(seed)
        return ff.digits(clients=4).open(seed)


def test_a_run_without_a_model_opens_its_data_once() -> None:
    on = Counted()
    ff.run("fedavg", on=on, seed=7, **SMALL)
    assert on.seeds == [7]


def test_a_study_opens_its_data_once_for_each_seed() -> None:
    on = Counted()
    ff.compare(["fedavg", "fedsam", "centralised"], on=on, seeds=[5, 6], **SMALL)
    assert sorted(on.seeds) == [5, 6]


def test_the_command_opens_once_and_the_folder_names_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []
    real = Digits.open
    monkeypatch.setattr(Digits, "open", lambda self, seed: seen.append(seed) or real(self, seed))
    words = [
        "--on",
        "digits(clients=4)",
        "--rounds",
        "1",
        "--clients-per-round",
        "2",
        "--executor",
        "in-process",
    ]
    assert (
        main(["compare", "fedavg", "fedsam", *words, "--quiet", "--out", str(tmp_path / "out")])
        == 0
    )
    assert seen == [0]
    runs = json.loads((tmp_path / "out" / "study.json").read_text())["runs"]
    assert [run["experiment"]["model"] for run in runs] == [repr(ff.mlp())] * 2


def test_nothing_is_kept_afterwards_nor_confused() -> None:
    one, other = Counted(), Counted()
    with opened_once():
        with opened_once():
            first = opened(one, 1)
        assert opened(one, 1) is first
        assert opened(other, 1) is not first
        assert opened(one, 2) is not first
    opened(one, 1)
    assert one.seeds == [1, 2, 1]
    assert other.seeds == [1]
