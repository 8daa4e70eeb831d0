"""``csv_file``: rows, classes, values, and files that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import fedflat as ff
from fedflat.errors import DataError, SettingError
from fedflat.registry.specs import parse


def write(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines) + "\n")
    return str(path)


ROWS = ["a,b,label", *(f"{k},{k / 2},{'yes' if k % 3 else 'no'}" for k in range(10))]


def test_every_fifth_row_is_for_testing(tmp_path: Path) -> None:
    on = ff.csv(write(tmp_path / "x.csv", *ROWS), clients=1)
    fed = on.open(0)
    assert fed.size(0) == 8
    assert fed.test.examples.inputs.tolist() == [[4.0, 2.0], [9.0, 4.5]]
    assert fed.test.examples.targets.tolist() == [1, 0]
    assert (fed.shape, fed.classes, on.class_names()) == ((2,), 2, ("no", "yes"))


def test_the_order_of_classes_can_be_given(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", *ROWS)
    on = ff.csv(path, clients=2, classes=["maybe", "yes", "no"])
    fed = on.open(0)
    assert (fed.classes, fed.test.examples.targets.tolist()) == (3, [1, 2])
    assert parse(repr(on), "data set") == on


def test_a_target_in_another_column(tmp_path: Path) -> None:
    fed = ff.csv(
        write(tmp_path / "x.csv", "t,a", *(f"{k},1" for k in range(12))), clients=1, target="t"
    ).open(0)
    assert fed.classes == 12
    assert fed.test.examples.targets.tolist() == [4, 9]


def test_values_are_for_regression(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "a,y", *(f"{k},{k + 0.5}" for k in range(20)))
    result = ff.run(
        "fedavg",
        on=ff.csv(path, clients=2),
        task="regression()",
        rounds=1,
        clients_per_round=2,
        lr=0.001,
        quiet=True,
    )
    assert result.status == "done"
    assert torch.isfinite(result.model.params).all()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["a,y", "1,2"], "rows to train and to test on, at least five, found 1 and 0"),
        (["y", *["1"] * 6], "no column for inputs"),
        (["a,a", *["1,2"] * 6], "different names in its first line"),
        (["a,y", *["x,1"] * 6], "row 2: column 'a' must be a finite number, found 'x'"),
        (["a,y", *["nan,1"] * 6], "row 2: column 'a' must be a finite number, found 'nan'"),
        (["a,y", *["1,1"] * 5, "1"], "row 7: there must be 2 values"),
        (["a,y", *["1,1"] * 5, "1,"], "a class is missing"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, lines: list[str], why: str) -> None:
    with pytest.raises(DataError, match=why):
        ff.csv(write(tmp_path / "x.csv", *lines), clients=1).open(0)


def test_wrong_settings(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", *ROWS)
    with pytest.raises(SettingError, match=r"no column 'lable'\. Did you mean"):
        ff.csv(path, target="lable").open(0)
    with pytest.raises(DataError, match="there is the class 'no', and the known ones are yes"):
        ff.csv(path, classes=["yes"]).open(0)
    with pytest.raises(DataError, match="cannot be read"):
        ff.csv(str(tmp_path / "nowhere.csv")).open(0)
    with pytest.raises(SettingError, match="the path of a file"):
        ff.csv("")
    with pytest.raises(SettingError, match="classes must be a list"):
        ff.csv(path, classes="yes")
