"""Roles as clients, from LEAF's JSON files in miniature."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from fedflat import iid, leaf_shakespeare
from fedflat.data.files.paths import set_data_dir
from fedflat.data.sets.shakespeare import LETTERS
from fedflat.errors import DataError, SettingError

PLAY = "Now is the winter of our discontent made glorious summer by this sun of York; " * 3


def windows(start: int, count: int, length: int = 8) -> dict[str, list[str]]:
    places = range(start, start + count)
    return {
        "x": [PLAY[i : i + length] for i in places],
        "y": [PLAY[i + length] for i in places],
    }


def write(path: Path, users: dict[str, dict[str, list[str]]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    sizes = [len(one["y"]) for one in users.values()]
    document = {"users": list(users), "num_samples": sizes, "user_data": users}
    path.write_text(json.dumps(document))


@pytest.fixture
def leaf(tmp_path: Path) -> Path:
    folder = tmp_path / "shakespeare" / "data"
    write(folder / "train" / "a.json", {"GLOUCESTER": windows(0, 40), "CLARENCE": windows(5, 6)})
    write(folder / "train" / "b.json", {"HASTINGS": windows(50, 30)})
    write(
        folder / "test" / "a.json",
        {
            "GLOUCESTER": windows(60, 10),
            "CLARENCE": windows(70, 2),
            "HASTINGS": windows(80, 6),
            "ANNE": windows(90, 3),
        },
    )
    set_data_dir(tmp_path)
    return folder


def text(rows: torch.Tensor) -> list[str]:
    return ["".join(LETTERS[i] for i in row) for row in rows.tolist()]


def test_the_alphabet_is_leafs() -> None:
    assert len(LETTERS) == 80
    assert LETTERS[:12] == "\n !\"&'(),-.0"
    assert LETTERS[20:26] == "9:;>?A"
    assert LETTERS[-29:] == "Z[]abcdefghijklmnopqrstuvwxyz}"[-29:]


def test_all_examples_of_all_roles(leaf: Path) -> None:
    fed = leaf_shakespeare(clients=3, run=None).open(0)
    assert (list(fed.sizes()), fed.classes, fed.shape) == ([40, 6, 30], 80, (8,))
    assert text(fed.data(1).batch(torch.arange(6), torch.float32).inputs) == windows(5, 6)["x"]
    assert [LETTERS[i] for i in fed.data(1).labels.tolist()] == windows(5, 6)["y"]
    assert len(fed.test) == 21


def test_a_run_of_examples_of_roles_with_enough(leaf: Path) -> None:
    """More than 20 for training and more than 4 for testing: two roles."""
    fed = leaf_shakespeare(clients=2, run=20).open(3)
    assert list(fed.sizes()) == [20, 20]
    assert len(fed.test) == 8
    everything = windows(0, 40)["x"]
    mine = text(fed.data(0).batch(torch.arange(20), torch.float32).inputs)
    start = everything.index(mine[0])
    assert mine == everything[start : start + 20]
    starts = set()
    for seed in range(12):
        data = leaf_shakespeare(clients=2, run=20).open(seed).data(0)
        starts.add(text(data.batch(torch.arange(20), torch.float32).inputs)[0])
    assert len(starts) > 3
    assert len(leaf_shakespeare(iid(), clients=4, run=20).owners()) == 2
    with pytest.raises(SettingError, match="3 clients need as many roles with enough examples"):
        leaf_shakespeare(clients=3, run=20).open(0)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({"x": ["abc", "ab"], "y": ["d", "e"]}, "texts of one length, found 'ab'"),
        ({"x": ["abc"], "y": ["de"]}, "one character, found 'de'"),
        ({"x": [7], "y": ["d"]}, "texts of one length, found 7"),
        ({"x": ["ab\ud800"], "y": ["d"]}, "lone surrogate"),
        ({"x": ["abc"], "y": ["d"]}, "equally long, found lengths 3, 8"),
    ],
)
def test_files_that_do_not_match(leaf: Path, data: dict[str, list[str]], error: str) -> None:
    write(leaf / "train" / "c.json", {"EDWARD": data})
    with pytest.raises(DataError, match=error):
        leaf_shakespeare(clients=1, run=None).open(0)
