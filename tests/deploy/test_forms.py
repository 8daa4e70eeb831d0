"""The form of clients' data: what a path stands for, and names that must agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fedflat.cli.deploy import own_data
from fedflat.data.sets.remote_clients import check_fits, describe, form_of_test
from fedflat.errors import SettingError
from fedflat.experiments.experiment import data_set


def write(path: Path, header: str, *rows: str) -> str:
    """A CSV file with ten times these rows."""
    path.write_text("\n".join([header, *rows * 10]) + "\n")
    return str(path)


def profile(text: str) -> dict[str, Any]:
    """What a client with these data reports."""
    spec = own_data(text)
    fed = spec.open(0)
    return describe("a", fed.data(0), fed.classes, spec)


def needed(text: str) -> dict[str, Any]:
    """What a server with these test data needs."""
    spec = own_data(text)
    return form_of_test(spec, spec.open(0).test)


def test_all_rows_of_a_file_are_used(tmp_path: Path) -> None:
    fed = own_data(write(tmp_path / "a.csv", "age,ill", "1,yes", "2,no")).open(0)
    assert fed.sizes() == [20]
    assert len(fed.test) == 20


def test_all_images_of_a_folder_are_used(tmp_path: Path) -> None:
    for name in ("x/cat/1.png", "x/dog/1.png", "y/train/cat/1.png", "y/test/cat/1.png"):
        (tmp_path / name).parent.mkdir(parents=True)
        Image.new("RGB", (2, 2)).save(tmp_path / name)
    fed = own_data(str(tmp_path / "x")).open(0)
    assert (fed.sizes(), len(fed.test)) == ([2], 2)
    divided = own_data(str(tmp_path / "y")).open(0)
    assert (divided.sizes(), len(divided.test)) == ([1], 1)


def test_data_that_fit(tmp_path: Path) -> None:
    there = write(tmp_path / "there.csv", "age,bmi,ill", "1,2,yes", "3,4,no")
    client = profile(write(tmp_path / "a.csv", "age,bmi,ill", "5,6,no", "7,8,yes"))
    check_fits(client, needed(there))
    assert client["columns"] == ["age", "bmi"]
    assert client["class_names"] == ["no", "yes"]


@pytest.mark.parametrize("text", ["nothing.csv", "nothing/"])
def test_a_path_at_which_nothing_is(text: str) -> None:
    with pytest.raises(SettingError, match=r"nothing.* is not there\. Name a folder"):
        own_data(text)


@pytest.mark.parametrize(
    ("header", "rows", "why"),
    [
        ("bmi,age,ill", ("1,2,yes", "3,4,no"), "their columns are bmi, age, and those of the ser"),
        ("age,bmi,ill", ("1,2,ja", "3,4,nein"), "their classes are ja, nein, and those of the ser"),
        ("age,bmi,ill", ("1,2,yes",), "their classes are 1, and those of the server's test set"),
        ("age,ill", ("1,yes", "3,no"), "their inputs are"),
    ],
)
def test_data_that_do_not_fit(tmp_path: Path, header: str, rows: tuple[str, ...], why: str) -> None:
    there = needed(write(tmp_path / "there.csv", "age,bmi,ill", "1,2,yes", "3,4,no"))
    client = profile(write(tmp_path / "a.csv", header, *rows))
    with pytest.raises(SettingError, match=why):
        check_fits(client, there)


def test_names_are_compared_where_both_have_them(tmp_path: Path) -> None:
    """Classes of a toy data set have numbers only."""
    digits = data_set("digits(clients=1)")
    fed = digits.open(0)
    client = describe("a", fed.data(0), fed.classes, digits)
    named = form_of_test(digits, fed.test) | {"class_names": [f"digit {k}" for k in range(10)]}
    check_fits(client, named)
